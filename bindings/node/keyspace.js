'use strict'

const { Loam, kFailure, kOpening, kOpenWithin, kNumber } = require('./database')
const { assertOpen } = require('./sync')
const { invalidArgument } = require('./errors')

const kRoot = Symbol('root')
const kName = Symbol('name')

// A keyspace of a database, an abstract-level database of its own.
class Keyspace extends Loam {
  constructor (db, name, options) {
    if (typeof name !== 'string') throw new TypeError("The first argument 'name' must be a string")
    super(db.location, options)
    this[kRoot] = db
    this[kName] = name
  }

  get name () {
    return this[kName]
  }

  // The database that it is a keyspace of.
  get db () {
    return this[kRoot]
  }

  async _open (options) {
    return this[kOpening](async () => {
      await this[kRoot].open({ passive: true }).catch((err) => {
        throw this[kRoot][kFailure] ?? err
      })
      assertOpen(this[kRoot], 'keyspace')
      this[kRoot].attachResource(this) // before the first wait: closing waits for the opening
      try {
        await this[kOpenWithin](this[kRoot], this[kName], options)
      } catch (err) {
        this[kRoot].detachResource(this)
        throw err
      }
    })
  }

  async _close () {
    await super._close()
    this[kRoot].detachResource(this)
  }
}

// The database itself keeps no class that needs it.
Loam.prototype.keyspace = function (name, options) {
  return new Keyspace(this instanceof Keyspace ? this.db : this, name, options)
}

// The number by which an operation of a batch names a keyspace; null: db, which is written.
function numberOf (db, keyspace) {
  if (!(keyspace instanceof Loam)) {
    throw invalidArgument('The keyspace of a batch operation must be a keyspace')
  }
  const root = db instanceof Keyspace ? db.db : db
  if ((keyspace instanceof Keyspace ? keyspace.db : keyspace) !== root) {
    throw invalidArgument('A batch operation has a keyspace of another database')
  }
  return keyspace === db ? null : keyspace[kNumber]()
}

exports.Keyspace = Keyspace
exports.numberOf = numberOf
