'use strict'

const { Loam } = require('./database')
const { Cache } = require('./cache')
const { prefixFilter } = require('./options')

exports.Loam = Loam
// The name that classic-level's users know, and with it the package level.
exports.ClassicLevel = Loam
exports.Cache = Cache
exports.prefixFilter = prefixFilter
