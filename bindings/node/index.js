'use strict'

const { Loam } = require('./database')
const { Cache } = require('./cache')

exports.Loam = Loam
// The name that classic-level's users know, and with it the package level.
exports.ClassicLevel = Loam
exports.Cache = Cache
