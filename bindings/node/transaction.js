'use strict'

// What db.transaction() hands to its function, and how often it calls that.

const { setTimeout: sleep } = require('timers/promises')
const { native, kept, AS_BUFFER, SYNC } = require('./binding')
const { BlockReader, openIterator } = require('./iterator')
const { TransactionIterator } = require('./transaction_iterator')
const { encodeRange } = require('./sync')
const { invalidArgument, checkNames, notOpen, transactionDone, decodeError } = require('./errors')
const { seconds } = require('./writer')

// As in loam.h
const SERIALIZABLE = 1
const LOCK = 2
const DELETE = 0
const PUT = 1
const MERGE = 2
const DELETE_RANGE = 15

// Failures after which the same function may succeed.
const RETRIED = new Set(['LEVEL_CONFLICT', 'LEVEL_DEADLOCK', 'LEVEL_LOCK_TIMEOUT'])
const RETRIES = 10
const FIRST_PAUSE_MS = 1
const LAST_PAUSE_MS = 20

// Options of calls.
const PLACE = ['keyEncoding', 'valueEncoding', 'keyspace', 'sublevel']
const RANGE = [...PLACE, 'gt', 'gte', 'lt', 'lte', 'reverse', 'limit', 'keys', 'values',
  'fillCache', 'highWaterMarkBytes']

const kEnd = Symbol('end')

// One call is made after the other, in their order: each waits for those before it.
class Transaction {
  #db
  #place // where calls go that name none: #db or one of its sublevels
  #native
  #contextOf // of a database or keyspace: its native side
  #last = null // settles with the last call; never rejects
  #ended = null // promise of the end
  #iterators = new Set()

  constructor (db, place, transaction, contextOf) {
    this.#db = db
    this.#place = place
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

  async has (key, options) {
    const { db, encoded } = this.#key(key, options)
    return this.#call(db, (context) => native.transactionHas(context, this.#native, encoded))
  }

  async put (key, value, options) {
    return this.#write(PUT, key, value, options, [...PLACE, 'ttl'])
  }

  // Adds an operand to a key, which counts as a write of it.
  async merge (key, operand, options) {
    return this.#write(MERGE, key, operand, options)
  }

  async del (key, options) {
    const { db, encoded } = this.#key(key, options)
    return this.#call(db, (context) => native.transactionWrite(context, this.#native, DELETE,
      encoded, undefined))
  }

  // Deletes the keys from start up to, not including, limit.
  async deleteRange (start, limit, options) {
    const { db, encoded } = this.#key(start, options)
    const { encoded: end } = this.#key(limit, options)
    return this.#call(db, (context) => native.transactionWrite(context, this.#native, DELETE_RANGE,
      encoded, end))
  }

  // Deletes the keys of a range, those that the transaction sees: by a range delete from the
  // first of them to the last, where the format has these.
  async clear (options) {
    const { db } = this.#target(options, RANGE)
    const write = (kind, key, limit) =>
      this.#call(db, (context) => native.transactionWrite(context, this.#native, kind, key, limit))
    const keys = (more) => this.#range({ ...options, ...more, keys: true, values: false }, true,
      (entry) => entry[0])
    if (Number.isInteger(options?.limit) && options.limit >= 0) {
      for await (const key of keys()) await write(DELETE, key)
      return
    }
    const [[first], [last]] = await Promise.all(
      [false, true].map((back) => keys({ reverse: back, limit: 1 }).all()))
    if (first === undefined) return
    try {
      await write(DELETE_RANGE, first, last)
      await write(DELETE, last)
    } catch (err) {
      if (err.code !== 'LEVEL_NEEDS_NATIVE') throw err
      for await (const key of keys()) await write(DELETE, key)
    }
  }

  // Remembers what has been written until now, for rollbackTo().
  async savepoint () {
    return this.#call(this.#db, () => native.transactionSavepoint(this.#native))
  }

  // Takes back what was written since a savepoint, which stays; later ones are gone.
  async rollbackTo (savepoint) {
    if (!Number.isSafeInteger(savepoint) || savepoint < 0) {
      throw new TypeError("The first argument 'savepoint' must be what savepoint() gave")
    }
    return this.#call(this.#db, () => native.transactionRollbackTo(this.#native, savepoint))
  }

  iterator (options) {
    return this.#range({ ...options }, false, (entry) => entry)
  }

  keys (options) {
    return this.#range({ ...options, keys: true, values: false }, false, (entry) => entry[0])
  }

  values (options) {
    return this.#range({ ...options, keys: false, values: true }, false, (entry) => entry[1])
  }

  // Commits or rolls back. The calls before it are made first.
  [kEnd] (commit, sync) {
    if (this.#ended === null) {
      const end = () => commit ? native.transactionCommit(this.#contextOf(this.#db), this.#native,
        sync ? SYNC : 0) : native.transactionRollback(this.#native)
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
    const { db, place, encoded } = this.#key(key, options)
    const encoding = place.valueEncoding(options?.valueEncoding)
    const flags = encoding.format === 'utf8' ? 0 : AS_BUFFER
    const value = await this.#call(db, (context) => native.transactionGet(context, this.#native,
      encoded, flags, update))
    return value === undefined ? undefined : decode(encoding, value)
  }

  async #write (kind, key, value, options, names) {
    const { db, place, encoded } = this.#key(key, options, names)
    place._assertValidValue(value)
    const encodedValue = this.#kept(place.valueEncoding(options?.valueEncoding).encode(value), db)
    const ttl = (options?.ttl ?? undefined) === undefined ? 0 : seconds(options.ttl)
    return this.#call(db, (context) => native.transactionWrite(context, this.#native, kind,
      encoded, encodedValue, ttl))
  }

  // raw: keys and values as the engine has them.
  #range (options, raw, pick) {
    let decoding = null
    const make = async () => {
      const { db, place } = this.#target(options, RANGE)
      const { encoded, encodings } = encodeRange(place, options)
      for (const name of ['gt', 'gte', 'lt', 'lte'].filter((name) => name in encoded)) {
        encoded[name] = this.#kept(encoded[name], db)
      }
      const prefix = raw ? 0 : place.prefix?.length ?? 0
      decoding = { ...encodings, prefix, place }
      // A key that is no text would come as another one.
      const reader = new BlockReader(raw ? { ...encoded, keyEncoding: 'buffer' } : encoded)
      return this.#call(db, (context) => {
        const iterator = openIterator(context, reader, encoded, undefined, this.#native)
        this.#iterators.add(iterator)
        return { db, context, iterator, reader }
      })
    }
    const made = make() // up to the first await at once, so that decoding is known to seek
    const encode = (target, { keyEncoding } = {}) => {
      if (decoding === null) return ''
      const encoding = keyEncoding === undefined ? decoding.key : decoding.place.keyEncoding(
        keyEncoding)
      return decoding.place.prefixKey(encoding.encode(target), encoding.format, false)
    }
    return new TransactionIterator(this.#ways(), made, options.limit, encode, ([key, value]) =>
      pick(raw
      ? [key, value]
      : [
          key === undefined ? undefined : decoding.key.decode(unprefixed(key, decoding.prefix)),
          value === undefined ? undefined : decoding.value.decode(value)
        ]))
  }

  #ways () {
    return {
      call: (db, call) => this.#call(db, call),
      assertOpen: () => this.#assertOpen(),
      release: (iterator) => {
        this.#iterators.delete(iterator)
        native.iteratorClose(iterator)
      }
    }
  }

  // The keyspace of a call, and where in it: there itself, or in a sublevel.
  #target (options, names = PLACE) {
    this.#assertOpen()
    checkNames(options, names)
    const { keyspace, sublevel } = options ?? {}
    if (sublevel !== undefined && sublevel !== null) {
      if (typeof sublevel.prefixKey !== 'function' || sublevel.parent === null ||
        sublevel.parent === undefined) {
        throw invalidArgument("The option 'sublevel' must be a sublevel")
      }
      return { db: sublevel.db, place: sublevel }
    }
    if (keyspace === undefined || keyspace === null) return { db: this.#db, place: this.#place }
    if (typeof keyspace._assertValidKey !== 'function') {
      throw invalidArgument("The option 'keyspace' must be a keyspace")
    }
    return { db: keyspace, place: keyspace }
  }

  #key (key, options, names) {
    const { db, place } = this.#target(options, names)
    place._assertValidKey(key)
    const encoding = place.keyEncoding(options?.keyEncoding)
    return { db, place,
      encoded: this.#kept(place.prefixKey(encoding.encode(key), encoding.format, false), db) }
  }

  // A call that waits, for its turn or a keyspace to open, copies its keys and values.
  #kept (data, db) {
    return this.#last === null && db.status !== 'opening' ? data : kept(data)
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

function unprefixed (key, prefix) {
  if (prefix === 0) return key
  return typeof key === 'string' ? key.slice(prefix) : key.subarray(prefix)
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
  checkNames(options, ['serializable', 'lock', 'lockTimeout', 'name', 'retries', 'sync'])
  if (lockTimeout !== undefined && (typeof lockTimeout !== 'number' || Number.isNaN(lockTimeout))) {
    throw invalidArgument("The option 'lockTimeout' must be a number of milliseconds")
  }
  if (name !== undefined && (typeof name !== 'string' || name.includes('\0'))) {
    throw invalidArgument("The option 'name' must be a string without zero bytes")
  }
  // 0 is the engine's default there, a negative number no end.
  const timeout = lockTimeout === undefined ? 0 : lockTimeout < 0 || lockTimeout > 2 ** 31 ? -1 :
    Math.max(1, Math.ceil(lockTimeout))
  return [(serializable ? SERIALIZABLE : 0) | (lock ? LOCK : 0), timeout, name]
}

// Calls the function with a transaction of begin(...), and again after a conflict. place is the
// database or the sublevel that was asked.
async function run (db, place, fn, options, begin, contextOf) {
  const args = beginArguments(options)
  const retries = options.retries ?? RETRIES
  if (typeof retries !== 'number' || !(retries >= 0)) {
    throw invalidArgument("The option 'retries' must be a number that is not negative")
  }
  for (let i = 0, pause = FIRST_PAUSE_MS; ; i++, pause = Math.min(2 * pause, LAST_PAUSE_MS)) {
    const tx = new Transaction(db, place, await begin(args), contextOf)
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
