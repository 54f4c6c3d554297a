'use strict'

const { AbstractLevel, AbstractSnapshot, AbstractChainedBatch } = require('abstract-level')
const ModuleError = require('module-error')
const fsp = require('fs/promises')
const path = require('path')
const { native, engineOptions, copyScratch, AS_BUFFER, NO_FILL, MAY_BLOCK, SYNC } = require('./binding')
const { ReadQueue, WriteQueue, packKeys, unpackValues } = require('./queues')
const { BatchWriter } = require('./writer')
const { Iterator, SyncIterator, bounds } = require('./iterator')

const kNative = Symbol('native')

const manifest = {
  encodings: { buffer: true, utf8: true, view: true },
  has: true,
  createIfMissing: true,
  errorIfExists: true,
  explicitSnapshots: true,
  getSync: true,
  additionalMethods: { approximateSize: true, compactRange: true },
  signals: { iterators: true }
}

class Loam extends AbstractLevel {
  #location
  #context = native.database()
  #reads = new ReadQueue(this.#context)
  #writes = new WriteQueue(this.#context)

  constructor (location, options) {
    super(manifest, (assertLocation(location), options))
    this.#location = location
  }

  get location () {
    return this.#location
  }

  async _open (options) {
    const pairs = await engineOptionPairs(options)
    if (options.createIfMissing) await fsp.mkdir(this.#location, { recursive: true })
    return native.open(this.#context, path.resolve(this.#location), pairs, options.multithreading === true)
  }

  async _close () {
    this.#reads.flush()
    await this.#writes.drain()
    return native.close(this.#context)
  }

  // ---- Reading ----

  _get (key, options) {
    return this.#reads.get(key, readFlags(options), snapshotOf(options))
  }

  _getSync (key, options) {
    const value = native.get(this.#context, snapshotOf(options), key, readFlags(options) | MAY_BLOCK)
    return typeof value === 'number' ? copyScratch(value) : value
  }

  async _getMany (keys, options) {
    const flags = readFlags(options)
    const packed = packKeys(keys)
    const result = await native.getMany(this.#context, snapshotOf(options), packed.buffer, packed.length, keys.length, flags)
    return unpackValues(result, keys.length, flags)
  }

  _has (key, options) {
    return native.has(this.#context, snapshotOf(options), key) ?? this.#hasOne(key, options)
  }

  async #hasOne (key, options) {
    return (await this._hasMany([key], options))[0]
  }

  async _hasMany (keys, options) {
    const packed = packKeys(keys)
    const snapshot = options.snapshot ?? null
    // The caller lets go of the snapshot before the answer is there.
    snapshot?.ref()
    try {
      const found = await native.hasMany(this.#context, snapshotOf(options), packed.buffer, packed.length, keys.length, 0)
      return Array.from(found, Boolean)
    } finally {
      snapshot?.unref()
    }
  }

  // ---- Writing ----

  _put (key, value, options) {
    return this.#writes.put(key, value, options.sync)
  }

  _del (key, options) {
    return this.#writes.del(key, options.sync)
  }

  _batch (operations, options) {
    return this.#writes.add(operations, options.sync)
  }

  _chainedBatch () {
    return new ChainedBatch(this)
  }

  async _clear (options) {
    const { lower, upper } = bounds(options)
    await this.#writes.drain()
    return native.clear(this.#context, snapshotOf(options), lower, upper, options.reverse, options.limit, options.sync === true)
  }

  putSync (key, value, options) {
    this.#assertWritable('putSync')
    this._assertValidKey(key)
    this._assertValidValue(value)
    const keyEncoding = this.keyEncoding(options?.keyEncoding)
    const valueEncoding = this.valueEncoding(options?.valueEncoding)
    const encodedKey = keyEncoding.encode(key)
    const encodedValue = valueEncoding.encode(value)
    this.#writes.flushSync()
    native.put(this.#context, encodedKey, encodedValue, options?.sync === true)
    if (this.listenerCount('write') > 0) {
      this.emit('write', [{ ...options, type: 'put', key, value, keyEncoding, valueEncoding, encodedKey, encodedValue }])
    }
  }

  delSync (key, options) {
    this.#assertWritable('delSync')
    this._assertValidKey(key)
    const keyEncoding = this.keyEncoding(options?.keyEncoding)
    const encodedKey = keyEncoding.encode(key)
    this.#writes.flushSync()
    native.put(this.#context, encodedKey, undefined, options?.sync === true)
    if (this.listenerCount('write') > 0) {
      this.emit('write', [{ ...options, type: 'del', key, keyEncoding, encodedKey }])
    }
  }

  batchSync (operations, options) {
    this.#assertWritable('batchSync')
    if (!Array.isArray(operations)) throw new TypeError("The first argument 'operations' must be an array")
    if (operations.length === 0) return
    const events = this.listenerCount('write') > 0 ? [] : null
    const writer = new BatchWriter()
    for (const operation of operations) {
      const op = this.#encode({ ...options, ...operation })
      if (op.type === 'put') writer.put(op.encodedKey, op.encodedValue)
      else writer.del(op.encodedKey)
      events?.push(op)
    }
    this.#writes.flushSync()
    native.write(this.#context, writer.finish(), writer.length, options?.sync === true ? SYNC : 0)
    if (events !== null) this.emit('write', events)
  }

  // Adds the encoded key and value to a batch operation, as write events have them.
  #encode (op) {
    const db = op.sublevel ?? this
    db._assertValidKey(op.key)
    op.keyEncoding = db.keyEncoding(op.keyEncoding)
    op.encodedKey = db.prefixKey(op.keyEncoding.encode(op.key), op.keyEncoding.format, false)
    if (op.type === 'put') {
      db._assertValidValue(op.value)
      op.valueEncoding = db.valueEncoding(op.valueEncoding)
      op.encodedValue = op.valueEncoding.encode(op.value)
    } else if (op.type !== 'del') {
      throw new TypeError("A batch operation must have a type property that is 'put' or 'del'")
    }
    return op
  }

  #assertWritable (method) {
    this.#assertOpen(method)
    if (!this.hooks.prewrite.noop) {
      throw new ModuleError(`Prewrite hooks cannot be run by ${method}()`, { code: 'LEVEL_NOT_SUPPORTED' })
    }
  }

  #assertOpen (method) {
    if (this.status !== 'open') {
      throw new ModuleError(`Database is not open: cannot call ${method}()`, { code: 'LEVEL_DATABASE_NOT_OPEN' })
    }
  }

  // ---- Iterators and snapshots ----

  _iterator (options) {
    return new Iterator(this, this.#context, options, snapshotOf(options))
  }

  iteratorSync (options) {
    this.#assertOpen('iteratorSync')
    const encodings = { key: this.keyEncoding(options?.keyEncoding), value: this.valueEncoding(options?.valueEncoding) }
    const encoded = { ...options, keyEncoding: encodings.key.format, valueEncoding: encodings.value.format }
    for (const name of ['gt', 'gte', 'lt', 'lte']) {
      if (encoded[name] != null) encoded[name] = encodings.key.encode(encoded[name])
    }
    return new SyncIterator(this, this.#context, encoded, encodings, snapshotOf(encoded))
  }

  _snapshot (options) {
    return new Snapshot(this.#context, options)
  }

  // ---- Upkeep ----

  approximateSize (start, end, options) {
    return this.#onRange('approximateSize', arguments.length, start, end, options)
  }

  compactRange (start, end, options) {
    return this.#onRange('compactRange', arguments.length, start, end, options)
  }

  async #onRange (method, given, start, end, options) {
    if (given < 2) throw new TypeError("The arguments 'start' and 'end' are required")
    if (this.status === 'opening') return this.deferAsync(() => this[method](start, end, options))
    this.#assertOpen(method)
    const keyEncoding = this.keyEncoding(options?.keyEncoding)
    return native[method](this.#context, keyEncoding.encode(start), keyEncoding.encode(end))
  }

  getProperty (property) {
    if (typeof property !== 'string') throw new TypeError("The first argument 'property' must be a string")
    this.#assertOpen('getProperty')
    return native.property(this.#context, property) ?? ''
  }

  static async destroy (location) {
    assertLocation(location)
    await engineOptions()
    return native.destroy(path.resolve(location))
  }

  static async repair (location) {
    assertLocation(location)
    await engineOptions()
    await native.repair(path.resolve(location))
  }
}

class Snapshot extends AbstractSnapshot {
  constructor (context, options) {
    super(options)
    this[kNative] = native.snapshot(context)
  }

  async _close () {
    const snapshot = this[kNative]
    this[kNative] = null
    native.snapshotClose(snapshot)
  }
}

class ChainedBatch extends AbstractChainedBatch {
  #operations = []

  constructor (db) {
    super(db, { add: true })
  }

  _add (operation) {
    this.#operations.push(operation)
  }

  _clear () {
    this.#operations = []
  }

  async _write (options) {
    return this.db._batch(this.#operations, options)
  }
}

function assertLocation (location) {
  if (typeof location !== 'string' || location === '') {
    throw new TypeError("The first argument 'location' must be a non-empty string")
  }
}

// undefined: no snapshot; null: one that is closed, which reading will notice.
function snapshotOf (options) {
  const snapshot = options.snapshot
  if (snapshot === undefined || snapshot === null) return undefined
  if (snapshot[kNative] === undefined) {
    throw new ModuleError('The snapshot is not one of this package', { code: 'LEVEL_INVALID_ARGUMENT' })
  }
  return snapshot[kNative]
}

function readFlags (options) {
  return (options.valueEncoding === 'utf8' ? 0 : AS_BUFFER) | (options.fillCache === false ? NO_FILL : 0)
}

// The options that the engine knows, as an array of alternating names and
// values. As with LevelDB, a number out of range becomes the nearest in it.
async function engineOptionPairs (options) {
  const pairs = ['error_if_missing', String(!options.createIfMissing)]
  for (const [key, { name, min, max }] of await engineOptions()) {
    let value = options[key]
    if (value === undefined || value === null || key === 'errorIfMissing') continue
    if (typeof value === 'number' && max > min) value = Math.min(Math.max(value, min), max)
    if (key === 'compression' && typeof value === 'boolean') value = value ? 'snappy' : 'none'
    pairs.push(name, String(value))
  }
  return pairs
}

exports.Loam = Loam
