'use strict'

// What db.transaction() hands to its function, and how often it calls that.

const { setTimeout: sleep } = require('timers/promises')
const { native, AS_BUFFER, SYNC } = require('./binding')
const { BlockReader, openIterator, HIGH_WATER_MARK, READ_AHEAD } = require('./iterator')
const { invalidArgument, notOpen, transactionDone, decodeError } = require('./errors')

// As in loam.h
const SERIALIZABLE = 1
const LOCK = 2

// Failures after which the same function may succeed.
const RETRIED = new Set(['LEVEL_CONFLICT', 'LEVEL_DEADLOCK', 'LEVEL_LOCK_TIMEOUT'])
const RETRIES = 10
const FIRST_PAUSE_MS = 1
const LAST_PAUSE_MS = 20

const kEnd = Symbol('end')

// One call is made after the other, in their order: each waits for those before it.
class Transaction {
  #db
  #native
  #contextOf // of a database or keyspace: its native side
  #last = null // settles with the last call; never rejects
  #ended = null // promise of the end
  #iterators = new Set()

  constructor (db, transaction, contextOf) {
    this.#db = db
    this.#native = transaction
    this.#contextOf = contextOf
  }

  async get (key, options) {
    return this.#get(key, options, false)
  }

  async getForUpdate (key, options) {
    return this.#get(key, options, true)
  }

  async getMany (keys, options) {
    if (!Array.isArray(keys)) throw new TypeError("The first argument 'keys' must be an array")
    return Promise.all(keys.map((key) => this.#get(key, options, false)))
  }

  async put (key, value, options) {
    const { db, encoded } = this.#key(key, options)
    db._assertValidValue(value)
    const encodedValue = db.valueEncoding(options?.valueEncoding).encode(value)
    return this.#call(db, (context) => native.transactionPut(context, this.#native, encoded, encodedValue))
  }

  async del (key, options) {
    const { db, encoded } = this.#key(key, options)
    return this.#call(db, (context) => native.transactionPut(context, this.#native, encoded, undefined))
  }

  // Remembers what has been written until now, for rollbackTo().
  async savepoint () {
    return this.#call(this.#db, () => native.transactionSavepoint(this.#native))
  }

  // Takes back what was written since a savepoint, which stays; later ones are gone.
  async rollbackTo (savepoint) {
    if (!Number.isSafeInteger(savepoint) || savepoint < 0) throw new TypeError("The first argument 'savepoint' must be what savepoint() gave")
    return this.#call(this.#db, () => native.transactionRollbackTo(this.#native, savepoint))
  }

  iterator (options) {
    return this.#entries({ ...options }, (entry) => entry)
  }

  keys (options) {
    return this.#entries({ ...options, keys: true, values: false }, (entry) => entry[0])
  }

  values (options) {
    return this.#entries({ ...options, keys: false, values: true }, (entry) => entry[1])
  }

  // Commits or rolls back. The calls before it are made first.
  [kEnd] (commit, sync) {
    if (this.#ended === null) {
      const end = () => commit ? native.transactionCommit(this.#contextOf(this.#db), this.#native, sync ? SYNC : 0) : native.transactionRollback(this.#native)
      this.#ended = this.#after(end)
      this.#ended.catch(() => {}).then(() => {
        native.transactionRollback(this.#native) // of a commit that could not begin
        this.#iterators.forEach((iterator) => native.iteratorClose(iterator))
      })
      return this.#ended
    }
    // Closing the database may have rolled it back.
    return commit ? Promise.reject(this.#reason()) : this.#ended.catch(() => {})
  }

  async #get (key, options, update) {
    const { db, encoded } = this.#key(key, options)
    const encoding = db.valueEncoding(options?.valueEncoding)
    const flags = encoding.format === 'utf8' ? 0 : AS_BUFFER
    const value = await this.#call(db, (context) => native.transactionGet(context, this.#native, encoded, flags, update))
    return value === undefined ? undefined : decode(encoding, value)
  }

  // The state is that of the first next().
  async * #entries (options, pick) {
    const db = this.#target(options)
    const encodings = { key: db.keyEncoding(options.keyEncoding), value: db.valueEncoding(options.valueEncoding) }
    const encoded = { ...options, keyEncoding: encodings.key.format, valueEncoding: encodings.value.format }
    for (const name of ['gt', 'gte', 'lt', 'lte']) {
      if (encoded[name] !== undefined && encoded[name] !== null) encoded[name] = encodings.key.encode(encoded[name])
    }
    const reader = new BlockReader(encoded)
    const iterator = await this.#call(db, (context) => openIterator(context, reader, encoded, undefined, this.#native))
    this.#iterators.add(iterator)
    try {
      let left = Number.isInteger(options.limit) && options.limit >= 0 ? options.limit : Infinity
      while (left > 0) {
        this.#assertOpen()
        if (reader.empty && reader.ended) return
        const size = Math.min(READ_AHEAD, left)
        if (reader.empty) reader.fill(await this.#call(db, (context) => native.iteratorNext(context, iterator, size, HIGH_WATER_MARK)))
        for (const [key, value] of reader.take(size)) {
          this.#assertOpen()
          left--
          yield pick([key === undefined ? undefined : decode(encodings.key, key), value === undefined ? undefined : decode(encodings.value, value)])
        }
      }
    } finally {
      this.#iterators.delete(iterator)
      native.iteratorClose(iterator)
    }
  }

  // The database or keyspace of a call.
  #target (options) {
    this.#assertOpen()
    const db = options?.keyspace ?? this.#db
    if (typeof db._assertValidKey !== 'function') throw invalidArgument("The option 'keyspace' must be a keyspace")
    return db
  }

  #key (key, options) {
    const db = this.#target(options)
    db._assertValidKey(key)
    return { db, encoded: db.keyEncoding(options?.keyEncoding).encode(key) }
  }

  async #call (db, call) {
    this.#assertOpen()
    return this.#after(async () => {
      if (db.status === 'opening') await db.open({ passive: true })
      return call(this.#contextOf(db))
    })
  }

  #after (call) {
    const turn = this.#last === null ? (async () => call())() : this.#last.then(call)
    const last = turn.then(() => {}, () => {}).then(() => {
      if (this.#last === last) this.#last = null
    })
    this.#last = last
    return turn
  }

  #assertOpen () {
    if (this.#ended !== null) throw this.#reason()
  }

  #reason () {
    return this.#db.status === 'open' ? transactionDone() : notOpen('transaction')
  }
}

function decode (encoding, data) {
  try {
    return encoding.decode(data)
  } catch (err) {
    throw decodeError('Could not decode data', err)
  }
}

// Flags, the time-out for locks in milliseconds and a name, for the native side.
function beginArguments (options) {
  const { serializable, lock, lockTimeout, name } = options
  if (lockTimeout !== undefined && (typeof lockTimeout !== 'number' || Number.isNaN(lockTimeout))) {
    throw invalidArgument("The option 'lockTimeout' must be a number of milliseconds")
  }
  if (name !== undefined && (typeof name !== 'string' || name.includes('\0'))) {
    throw invalidArgument("The option 'name' must be a string without zero bytes")
  }
  // 0 is the engine's default there, a negative number no end.
  const timeout = lockTimeout === undefined ? 0 : lockTimeout < 0 || lockTimeout > 2 ** 31 ? -1 : Math.max(1, Math.ceil(lockTimeout))
  return [(serializable ? SERIALIZABLE : 0) | (lock ? LOCK : 0), timeout, name]
}

// Calls the function with a transaction of begin(...), and again after a conflict.
async function run (db, fn, options, begin, contextOf) {
  const args = beginArguments(options)
  const retries = options.retries ?? RETRIES
  if (typeof retries !== 'number' || !(retries >= 0)) throw invalidArgument("The option 'retries' must be a number that is not negative")
  for (let i = 0, pause = FIRST_PAUSE_MS; ; i++, pause = Math.min(2 * pause, LAST_PAUSE_MS)) {
    const tx = new Transaction(db, await begin(args), contextOf)
    const resource = { close: () => tx[kEnd](false).catch(() => {}) }
    db.attachResource(resource)
    try {
      const result = await fn(tx)
      await tx[kEnd](true, options.sync === true)
      return result
    } catch (err) {
      await tx[kEnd](false)
      if (!RETRIED.has(err?.code) || i >= retries || db.status !== 'open') throw err
    } finally {
      db.detachResource(resource)
    }
    await sleep(Math.random() * pause)
  }
}

exports.run = run
