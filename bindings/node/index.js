'use strict'

const { Loam } = require('./database')
const { Keyspace } = require('./keyspace')
const { Cache } = require('./cache')
const { prefixFilter } = require('./options')

exports.Loam = Loam
// The name that classic-level's users know, and with it the package level.
exports.ClassicLevel = Loam
exports.Keyspace = Keyspace
exports.Cache = Cache
exports.prefixFilter = prefixFilter
