'use strict'

const { Loam, kClamps } = require('./database')
const { Keyspace } = require('./keyspace')
const { Cache, Resources } = require('./cache')
const { Backups } = require('./backups')
const { verifyDump } = require('./dump')
const { TableWriter } = require('./ingest')
const { prefixFilter } = require('./options')

// What classic-level's users know, and with it the package level: new databases are
// LevelDB's, so that there is a way back.
class ClassicLevel extends Loam {
  get [kClamps] () {
    return true
  }

  async _open (options) {
    return super._open({ ...options, format: options.format ?? 'leveldb' })
  }
}

exports.Loam = Loam
exports.ClassicLevel = ClassicLevel
exports.Keyspace = Keyspace
exports.Cache = Cache
exports.Backups = Backups
exports.Resources = Resources
exports.verifyDump = verifyDump
exports.TableWriter = TableWriter
exports.prefixFilter = prefixFilter
