'use strict'

const path = require('path')
const { native, engineOptions } = require('./binding')
const { Loam, kSettled } = require('./database')
const { watch, watched } = require('./jobs')
const { invalidArgument, checkNames, AbortError } = require('./errors')

// As in loam.h
const READ_ONLY = 1
const ERROR_IF_MISSING = 2

const kOpening = Symbol('opening')

function number (name, value) {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw invalidArgument(`The argument '${name}' must be a number that is not negative`)
  }
  return value
}

function place (location) {
  if (typeof location !== 'string' || location === '') {
    throw new TypeError("The argument 'location' must be a non-empty string")
  }
  return path.resolve(location)
}

// What the library says of a backup, in the manner of JavaScript.
function described ({ id, created_ms: ms, database, format, files, bytes, new_bytes: newBytes,
  error }) {
  return { id, created: new Date(ms), database, format, files, bytes, newBytes, error }
}

// A folder of backups, which may be of several databases. Made by Backups.open().
class Backups {
  #native
  #location
  #closing = null

  constructor (token) {
    if (token !== kOpening) throw new TypeError('Use Backups.open()')
  }

  static async open (location, options) {
    const at = place(location)
    checkNames(options, ['readOnly', 'errorIfMissing'])
    await engineOptions() // loads the engine
    const flags = (options?.readOnly ? READ_ONLY : 0) |
      (options?.errorIfMissing ? ERROR_IF_MISSING : 0)
    const backups = new Backups(kOpening)
    backups.#native = await native.backupOpen(at, flags)
    backups.#location = at
    return backups
  }

  get location () {
    return this.#location
  }

  async create (db, options) {
    if (!(db instanceof Loam)) throw new TypeError("The argument 'db' must be a database")
    const run = this.#options(options)
    const context = await db[kSettled]('backup')
    return described(JSON.parse(await run(native.backupCreate(this.#native, context, run.rate))))
  }

  async list () {
    return JSON.parse(await native.backupList(this.#native)).map(described)
  }

  async verify (id, options) {
    const run = this.#options(options)
    await run(native.backupVerify(this.#native, number('id', id), run.rate))
  }

  async restore (id, location, options) {
    const run = this.#options(options)
    await run(native.backupRestore(this.#native, number('id', id), place(location), run.rate))
  }

  async delete (id) {
    await native.backupDelete(this.#native, number('id', id))
  }

  async keep (n) {
    await native.backupKeep(this.#native, number('n', n))
  }

  // What is under way ends with an error.
  async close () {
    this.#closing ??= native.backupClose(this.#native)
    return this.#closing
  }

  // A function that waits for a job.
  #options (options) {
    const { signal, progress } = watched(options, 'progress', 'bytesPerSecond')
    const rate = number('bytesPerSecond', options?.bytesPerSecond ?? 0)
    if (signal?.aborted) throw new AbortError(signal.reason)
    return Object.assign((job) => watch(job, native.jobResult, signal, progress), { rate })
  }
}

if (typeof Symbol.asyncDispose === 'symbol') {
  Backups.prototype[Symbol.asyncDispose] = Backups.prototype.close
}

exports.Backups = Backups
