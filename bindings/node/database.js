'use strict'

const { AbstractLevel, AbstractSnapshot } = require('abstract-level')
const path = require('path')
const { native, engineOptions, copyScratch, kept, AS_BUFFER, NO_FILL, MAY_BLOCK, SYNC } = require(
  './binding')
const { snake } = require('./cache')
const { enginePairs, creationPairs, cacheOf, loggerOf, OPENING } = require('./options')
const { ReadQueue, WriteQueue, packKeys, unpackValues, hasErrors } = require('./queues')
const { BatchWriter } = require('./writer')
const { Iterator, KeyIterator, ValueIterator, SyncIterator, bounds } = require('./iterator')
const { Sublevel, ChainedBatch } = require('./sublevel')
const sync = require('./sync')
const transaction = require('./transaction')
const { watch, watched } = require('./jobs')
const ingest = require('./ingest')
const { invalidArgument, keyspaceExists, isError, tellCause, withDirectory, AbortError,
  checkNames } = require('./errors')

// What keyspace.js needs of the private side.
const kOpenWithin = Symbol('openWithin')
const kNumber = Symbol('number')
const kOpening = Symbol('opening')
const kFailure = Symbol('failure')

// What index.js needs: numbers out of range become the nearest in it.
const kClamps = Symbol('clamps')

// What backups.js needs.
const kSettled = Symbol('settled')

const kNative = Symbol('native')
const kFamily = Symbol('family')
const kNow = Symbol('now')

const manifest = {
  encodings: { buffer: true, utf8: true, view: true },
  has: true,
  createIfMissing: true,
  errorIfExists: true,
  explicitSnapshots: true,
  getSync: true,
  additionalMethods: {
    approximateSize: true,
    approximateSizes: true,
    catchUp: true,
    changes: true,
    checkpoint: true,
    dump: true,
    load: true,
    compact: true,
    compactRange: true,
    flush: true,
    ingest: true,
    lag: true,
    bulkLoad: true,
    keysInUse: true,
    metrics: true,
    recoveryReport: true,
    rekey: true,
    sync: true,
    verify: true
  },
  signals: { iterators: true }
}

class Loam extends AbstractLevel {
  #location
  #context = native.database()
  #family = this.#context // what a database and its keyspaces have in common
  #reads = new ReadQueue(this.#context)
  #numberOf = (keyspace) => require('./keyspace').numberOf(this, keyspace)
  #writes = new WriteQueue(this.#context, this.#reads, this.#numberOf)
  #follows = false
  #failure = null // why the last open() failed
  // held here alone: the native side must not keep what may refer to this database
  #logger = undefined

  constructor (location, options) {
    super(manifest, (assertLocation(location), options))
    this.#location = location
  }

  get location () {
    return this.#location
  }

  // The promises of these two are abstract-level's: one of our own would settle later.

  open (options) {
    const opening = super.open(options)
    opening.catch((err) => tellCause(err, err.cause))
    return opening
  }

  // Calls that wait for open() tell why it failed, too.
  deferAsync (fn, options) {
    const deferred = super.deferAsync(fn, options)
    deferred.catch((err) => tellCause(err, this.#failure))
    return deferred
  }

  get [kFailure] () {
    return this.#failure
  }

  // Names of the options of open(). Other names belong to the hooks, if there are any.
  get #optionNames () {
    return this.hooks.postopen.noop ? OPENING : null
  }

  // Remembers why open fails.
  async [kOpening] (open) {
    this.#failure = null
    try {
      await open()
    } catch (err) {
      this.#failure = err
      throw err
    }
  }

  async _open (options) {
    return this[kOpening](() => this.#open(options))
  }

  async #open (options) {
    const pairs = [...creationPairs(options),
      ...await enginePairs(options, { others: this.#optionNames, clamps: this[kClamps] })]
    this.#logger = loggerOf(options)
    this.#follows = options.follow === true
    return native.open(this.#context, path.resolve(this.#location), pairs,
      options.multithreading === true, cacheOf(options), this.#logger, options.follow === true)
  }

  // Opens a keyspace of db, and creates it unless createIfMissing is false.
  async [kOpenWithin] (db, name, options) {
    const pairs = ['error_if_missing', String(!options.createIfMissing),
      ...await enginePairs(options, { others: this.#optionNames })]
    if (options.errorIfExists && db.keyspaces().includes(name)) throw keyspaceExists(name)
    this.#family = db.#family
    this.#follows = db.#follows
    return native.keyspaceOpen(this.#context, db.#context, wellFormed(name), pairs)
  }

  [kNumber] () {
    return native.keyspaceNumber(this.#context)
  }

  // The names of all keyspaces, 'default' first.
  keyspaces () {
    sync.assertOpen(this, 'keyspaces')
    return JSON.parse(native.keyspaceList(this.#context))
  }

  async dropKeyspace (name) {
    if (typeof name !== 'string') throw new TypeError("The first argument 'name' must be a string")
    if (this.status === 'opening') return this.deferAsync(() => this.dropKeyspace(name))
    sync.assertOpen(this, 'dropKeyspace')
    await this.#writes.settled()
    return native.keyspaceDrop(this.#context, wellFormed(name))
  }

  async _close () {
    this.#reads.flush()
    await this.#writes.drain()
    return native.close(this.#context)
  }

  _sublevel (name, options) {
    return new Sublevel(this, name, options, () => this.#failure)
  }

  // ---- Reading ----

  _get (key, options) {
    const snapshot = snapshotOf(this.#family, options)
    if (isMade(snapshot)) return this.#reads.get(key, readFlags(options), snapshot)
    const later = kept(key)
    return snapshot.then((made) => this.#reads.get(later, readFlags(options), made))
  }

  _getSync (key, options) {
    const value = native.get(this.#context, snapshotNow(this.#family, options), key,
      readFlags(options) | MAY_BLOCK)
    return typeof value === 'number' ? copyScratch(value) : value
  }

  async _getMany (keys, options) {
    const flags = readFlags(options)
    const packed = packKeys(keys)
    const snapshot = snapshotOf(this.#family, options)
    const made = isMade(snapshot) ? snapshot : await snapshot
    const result = await native.getMany(this.#context, made, packed.buffer, packed.length,
      keys.length, flags)
    const errors = hasErrors(result, keys.length, flags)
    const values = unpackValues(result, keys.length, flags)
    if (errors && values.some(isError)) throw values.find(isError)
    return values
  }

  _has (key, options) {
    const snapshot = snapshotOf(this.#family, options)
    return (isMade(snapshot) ? native.has(this.#context, snapshot, key) : null) ??
      this.#hasOne(key, options)
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
      const state = snapshotOf(this.#family, options)
      const made = isMade(state) ? state : await state
      const found = await native.hasMany(this.#context, made, packed.buffer, packed.length,
        keys.length, readFlags(options) & NO_FILL)
      return Array.from(found, Boolean)
    } finally {
      snapshot?.unref()
    }
  }

  // ---- Writing ----

  _put (key, value, options) {
    return this.#writes.put(key, value, options.sync, options.ttl)
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

  _clear (options) {
    const { lower, upper, flags } = bounds(options)
    const [from, to] = [kept(lower), kept(upper)]
    const snapshot = snapshotNow(this.#family, options)
    return this.#writes.run(() => native.clear(this.#context, snapshot, from, to, flags,
      options.limit, options.sync === true))
  }

  // Adds an operand to a key, whose value is from then on what the merge operator makes of
  // the value before and the operand.
  async merge (key, operand, options) {
    if (this.status === 'opening') return this.deferAsync(() => this.merge(key, operand, options))
    sync.assertOpen(this, 'merge')
    const [encodedKey, encodedOperand] = sync.mergeArguments(this, key, operand, options)
    return this.#writes.merge(encodedKey, encodedOperand, options?.sync === true)
  }

  mergeSync (key, operand, options) {
    sync.mergeSync(this, key, operand, options)
  }

  async deleteRange (start, limit, options) {
    if (this.status === 'opening') {
      return this.deferAsync(() => this.deleteRange(start, limit, options))
    }
    return sync.deleteRange(this, start, limit, options)
  }

  [sync.kDeleteRange] (start, limit, keyEncoding, options) {
    const [from, to] = [kept(start), kept(limit)]
    return this.#writes.run(
      () => native.deleteRange(this.#context, from, to, options?.sync === true))
  }

  deleteRangeSync (start, limit, options) {
    sync.deleteRange(this, start, limit, options, sync.kDeleteRangeSync)
  }

  [sync.kDeleteRangeSync] (start, limit, keyEncoding, options) {
    this.#writes.finish()
    native.deleteRangeSync(this.#context, start, limit, options?.sync === true)
  }

  // Calls fn with a transaction, which is committed when its promise resolves and rolled back
  // when it rejects.
  async transaction (fn, options) {
    return this[sync.kTransaction](this, fn, options)
  }

  // place is this database or a sublevel of it, where calls on the transaction go.
  async [sync.kTransaction] (place, fn, options) {
    if (typeof fn !== 'function') throw new TypeError("The first argument 'fn' must be a function")
    if (this.status === 'opening') {
      return this.deferAsync(() => this[sync.kTransaction](place, fn, options))
    }
    sync.assertOpen(this, 'transaction')
    const begin = async (args) => {
      await this.#writes.settled()
      sync.assertOpen(this, 'transaction')
      const begun = await native.transactionBegin(this.#context, ...args)
      if (this.status !== 'open') native.transactionRollback(begun)
      sync.assertOpen(this, 'transaction')
      return begun
    }
    return transaction.run(this, place, fn, { ...options }, begin, (db) => this.#contextOf(db))
  }

  #contextOf (db) {
    if (!(#context in db) || db.#family !== this.#family) {
      throw invalidArgument('The keyspace is none of this database')
    }
    return db.#context
  }

  // Stores a value if the key has the value old, and resolves to whether it did; undefined or
  // null is no value.
  async compareAndSwap (key, old, value, options) {
    if (this.status === 'opening') {
      return this.deferAsync(() => this.compareAndSwap(key, old, value, options))
    }
    sync.assertOpen(this, 'compareAndSwap')
    checkNames(options, sync.WRITING)
    this._assertValidKey(key)
    const encodedKey = kept(this.keyEncoding(options?.keyEncoding).encode(key))
    const encoding = this.valueEncoding(options?.valueEncoding)
    const [from, to] = [old, value].map((v) => v === undefined || v === null ? undefined :
      kept(encoding.encode(v)))
    return this.#writes.run(() => native.compareAndSwap(this.#context, encodedKey, from, to,
      options?.sync === true))
  }

  // How many seconds the key has its value: Infinity for a value that does not expire, undefined
  // without a value.
  async ttl (key, options) {
    if (this.status === 'opening') return this.deferAsync(() => this.ttl(key, options))
    sync.assertOpen(this, 'ttl')
    checkNames(options, ['keyEncoding'])
    this._assertValidKey(key)
    const encodedKey = kept(this.keyEncoding(options?.keyEncoding).encode(key))
    await this.#writes.settled()
    sync.assertOpen(this, 'ttl')
    return native.ttl(this.#context, encodedKey)
  }

  async putIfAbsent (key, value, options) {
    this._assertValidValue(value)
    return this.compareAndSwap(key, undefined, value, options)
  }

  putSync (key, value, options) {
    sync.put(this, key, value, options)
  }

  delSync (key, options) {
    sync.del(this, key, options)
  }

  batchSync (operations, options) {
    sync.batch(this, operations, options)
  }

  [sync.kPut] (key, value, keyEncoding, valueEncoding, options) {
    this.#writes.finish()
    native.put(this.#context, key, value, options?.sync === true)
  }

  [sync.kDel] (key, keyEncoding, options) {
    this.#writes.finish()
    native.put(this.#context, key, undefined, options?.sync === true)
  }

  [sync.kBatch] (operations, options) {
    const writer = new BatchWriter()
    writer.add(operations, this.#numberOf)
    this.#writes.finish()
    native.write(this.#context, writer.finish(), writer.length, options?.sync === true ? SYNC : 0)
  }

  // Resolves when all earlier writes are on disk.
  async sync () {
    if (this.status === 'opening') return this.deferAsync(() => this.sync())
    sync.assertOpen(this, 'sync')
    const empty = new BatchWriter()
    return this.#writes.run(() => native.writeAsync(this.#context, empty.finish(), empty.length,
      SYNC))
  }

  // ---- Iterators and snapshots ----

  _iterator (options) {
    return this[sync.kReading](Iterator, this, options)
  }

  _keys (options) {
    return this[sync.kReading](KeyIterator, this, options)
  }

  _values (options) {
    return this[sync.kReading](ValueIterator, this, options)
  }

  // For a sublevel, or this database.
  [sync.kReading] (Reading, db, options) {
    return new Reading(db, this.#context, options, snapshotOf(this.#family, options), this.#follows)
  }

  iteratorSync (options) {
    return sync.iterator(this, options, (encoded, encodings) => this[sync.kIterator](
      this, encoded, encodings))
  }

  // For a sublevel, or this database.
  [sync.kIterator] (db, encoded, encodings) {
    return new SyncIterator(db, this.#context, encoded, encodings,
      snapshotNow(this.#family, encoded))
  }

  _snapshot (options) {
    return new Snapshot(this.#family, this.#context, this.#follows, options)
  }

  // ---- Upkeep ----

  async approximateSize (start, end, options) {
    if (arguments.length < 2) throw new TypeError("The arguments 'start' and 'end' are required")
    return (await this.approximateSizes([[start, end]], options))[0]
  }

  async approximateSizes (ranges, options) {
    if (this.status === 'opening') {
      return this.deferAsync(() => this.approximateSizes(ranges, options))
    }
    sync.assertOpen(this, 'approximateSizes')
    checkNames(options, ['keyEncoding'])
    return native.approximateSizes(
      this.#context,
      [...ranges].flatMap(
        ([start, stop]) => [this.#bound(start, options), this.#bound(stop, options)]))
  }

  async compact (start, stop, options) {
    if (this.status === 'opening') return this.deferAsync(() => this.compact(start, stop, options))
    sync.assertOpen(this, 'compact')
    return this.#compact(this.#bound(start, options), this.#bound(stop, options), options)
  }

  async compactRange (start, end, options) {
    if (arguments.length < 2) throw new TypeError("The arguments 'start' and 'end' are required")
    if (this.status === 'opening') {
      return this.deferAsync(() => this.compactRange(start, end, options))
    }
    sync.assertOpen(this, 'compactRange')
    const first = this.#bound(start, options)
    const behind = this.#behind(this.#bound(end, options))
    // As with LevelDB, there may be nothing in the range.
    if (first !== undefined && behind !== undefined &&
      Buffer.compare(Buffer.from(first), Buffer.from(behind)) > 0) return
    return this.#compact(first, behind, options)
  }

  async #compact (start, stop, options) {
    const { signal, progress } = watched(options, 'progress', 'keyEncoding')
    await this.#writes.settled()
    if (signal?.aborted) throw new AbortError(signal.reason)
    return this.#watch(native.compactStart(this.#context, start, stop), signal, progress)
  }

  async verify (options) {
    if (this.status === 'opening') return this.deferAsync(() => this.verify(options))
    sync.assertOpen(this, 'verify')
    const { signal, progress } = watched(options, 'progress')
    if (signal?.aborted) throw new AbortError(signal.reason)
    return this.#watch(native.verifyStart(this.#context), signal, progress)
  }

  // A method without arguments whose job start begins.
  async #job (method, start, options) {
    if (this.status === 'opening') return this.deferAsync(() => this.#job(method, start, options))
    sync.assertOpen(this, method)
    const { signal } = watched(options)
    if (signal?.aborted) throw new AbortError(signal.reason)
    return this.#watch(start(this.#context), signal)
  }

  async rekey (options) {
    return this.#job('rekey', native.rekeyStart, options)
  }

  async keysInUse () {
    if (this.status === 'opening') return this.deferAsync(() => this.keysInUse())
    sync.assertOpen(this, 'keysInUse')
    return JSON.parse(await native.keysInUse(this.#context))
  }

  async dump (file, options) {
    const context = await this[kSettled]('dump')
    const snapshot = options?.snapshot ?? null
    const state = snapshotOf(this.#family, options ?? {})
    snapshot?.ref() // fails if it is closed; closing waits for the end
    try {
      return await require('./dump').dump(this, context, file, options, await state)
    } finally {
      snapshot?.unref()
    }
  }

  async load (file, options) {
    const context = await this[kSettled]('load')
    return require('./dump').load(this, context, file, options)
  }

  async checkpoint (location, options) {
    if (typeof location !== 'string' || location === '') {
      throw new TypeError("The argument 'location' must be a non-empty string")
    }
    if (this.status === 'opening') return this.deferAsync(() => this.checkpoint(location, options))
    sync.assertOpen(this, 'checkpoint')
    const { signal } = watched(options)
    if (signal?.aborted) throw new AbortError(signal.reason)
    const to = path.resolve(location)
    await this.#writes.settled()
    return this.#watch(native.checkpointStart(this.#context, to), signal)
  }

  async catchUp (options) {
    return this.#job('catchUp', native.catchUpStart, options)
  }

  async lag () {
    if (this.status === 'opening') return this.deferAsync(() => this.lag())
    sync.assertOpen(this, 'lag')
    const [operations, seconds] = await native.lag(this.#context)
    return { operations, seconds }
  }

  async ingest (locations, options) {
    const tables = ingest.tables(locations)
    if (this.status === 'opening') return this.deferAsync(() => this.ingest(tables, options))
    sync.assertOpen(this, 'ingest')
    const { signal } = watched(options, 'move', 'excise', 'keyEncoding')
    if (signal?.aborted) throw new AbortError(signal.reason)
    const { move, excise } = { ...options }
    if (excise != null && !Array.isArray(excise)) {
      throw invalidArgument("The option 'excise' must be an array of start and limit")
    }
    const ends = excise == null ? [] : [excise[0], excise[1]].map(
      (key) => this.#bound(key, options))
    if (ends.includes(undefined)) {
      throw invalidArgument("The option 'excise' must have a start and a limit")
    }
    await this.#writes.settled()
    return this.#watch(native.ingestStart(this.#context, tables, move === true, ends[0], ends[1]),
      signal)
  }

  async bulkLoad (entries, options) {
    if (typeof entries?.[Symbol.asyncIterator] !== 'function' &&
      typeof entries?.[Symbol.iterator] !== 'function') throw new TypeError(
      "The argument 'entries' must be iterable")
    if (this.status === 'opening') return this.deferAsync(() => this.bulkLoad(entries, options))
    sync.assertOpen(this, 'bulkLoad')
    const { signal } = watched(options, 'memory', 'keyEncoding', 'valueEncoding')
    if (signal?.aborted) throw new AbortError(signal.reason)
    const keys = this.keyEncoding(options?.keyEncoding)
    const values = this.valueEncoding(options?.valueEncoding)
    await this.#writes.settled()
    const encode = ([key, value]) => {
      this._assertValidKey(key)
      this._assertValidValue(value)
      return [keys.encode(key), values.encode(value)]
    }
    const [job, load] = await ingest.bulkLoad(this.#context, entries, encode, options?.memory,
      signal)
    try {
      await this.#watch(job, signal)
    } finally {
      await native.bulkLoadClose(load)
    }
  }

  #watch (job, signal, progress) {
    return watch(job, (job) => native.jobWait(this.#context, job), signal, progress)
  }

  // The native side of the open database, behind the writes that were begun.
  async [kSettled] (method) {
    if (this.status === 'opening') return this.deferAsync(() => this[kSettled](method))
    sync.assertOpen(this, method)
    await this.#writes.settled()
    return this.#context
  }

  // A feed of committed changes: for await (const change of db.changes()).
  changes (options) {
    sync.assertOpen(this, 'changes')
    return new (require('./changes').Changes)(this, this.#context, options)
  }

  async flush () {
    if (this.status === 'opening') return this.deferAsync(() => this.flush())
    sync.assertOpen(this, 'flush')
    await this.#writes.settled()
    return native.flush(this.#context)
  }

  #bound (key, options) {
    return key === undefined || key === null ? undefined :
      kept(this.keyEncoding(options?.keyEncoding).encode(key))
  }

  // A bound that leaves the key inside: the next larger key, which is known in the usual order
  // only.
  #behind (key) {
    if (key === undefined || this.comparatorName() !== 'leveldb.BytewiseComparator') {
      return undefined
    }
    return typeof key === 'string' ? key + '\0' : Buffer.concat([key, Buffer.alloc(1)])
  }

  pauseCompaction () {
    sync.assertOpen(this, 'pauseCompaction')
    native.pauseCompaction(this.#context)
  }

  resumeCompaction () {
    sync.assertOpen(this, 'resumeCompaction')
    native.resumeCompaction(this.#context)
  }

  retry () {
    sync.assertOpen(this, 'retry')
    native.retry(this.#context)
  }

  // ---- Information ----

  getProperty (property) {
    if (typeof property !== 'string') {
      throw new TypeError("The first argument 'property' must be a string")
    }
    sync.assertOpen(this, 'getProperty')
    return native.property(this.#context, property) ?? ''
  }

  // Of a keyspace, options that keyspaces have of their own.
  setOption (name, value) {
    if (typeof name !== 'string') throw new TypeError("The first argument 'name' must be a string")
    if (!['string', 'number', 'boolean'].includes(typeof value)) {
      throw new TypeError("The second argument 'value' must be a string, a number or a boolean")
    }
    if (`${name}${value}`.includes('\0')) throw invalidArgument('An option has no zero bytes')
    sync.assertOpen(this, 'setOption')
    native.setOption(this.#context, snake(name), String(value))
  }

  option (name) {
    if (typeof name !== 'string') throw new TypeError("The first argument 'name' must be a string")
    sync.assertOpen(this, 'option')
    return native.option(this.#context, snake(name))
  }

  comparatorName () {
    sync.assertOpen(this, 'comparatorName')
    return native.comparatorName(this.#context)
  }

  async metrics () {
    if (this.status === 'opening') return this.deferAsync(() => this.metrics())
    sync.assertOpen(this, 'metrics')
    return JSON.parse(await native.metrics(this.#context))
  }

  async recoveryReport () {
    if (this.status === 'opening') return this.deferAsync(() => this.recoveryReport())
    sync.assertOpen(this, 'recoveryReport')
    return JSON.parse(await native.recoveryReport(this.#context))
  }

  // ---- Databases that are not open ----

  // A database that another process writes, open for reading beside it.
  static async follow (location, options) {
    const db = new this(location, { ...options, follow: true })
    await db.open()
    return db
  }

  static async destroy (location) {
    assertLocation(location)
    await engineOptions()
    return native.destroy(path.resolve(location))
  }

  static async repair (location, options) {
    assertLocation(location)
    const at = path.resolve(location)
    const pairs = await enginePairs(options)
    return JSON.parse(await native.repair(at, pairs).catch((err) => {
      throw withDirectory(err, at)
    }))
  }

  static async upgrade (location, options) {
    assertLocation(location)
    return native.upgrade(path.resolve(location), await enginePairs(options))
  }

  static async export (location, to, options) {
    assertLocation(location)
    assertLocation(to)
    const { format = 'leveldb', ...rest } = Object(options) === options ? options : {}
    return native.export(path.resolve(location), path.resolve(to), String(format),
      await enginePairs(rest))
  }
}

class Snapshot extends AbstractSnapshot {
  #context

  constructor (family, context, follows, options) {
    const made = follows ? native.snapshotMake(context) : native.snapshot(context)
    super(options)
    this.#context = context
    this[kFamily] = family
    this[kNative] = made // a promise while a follower catches up; null: closed
    if (follows) this.#make(made)
  }

  // What there is when the promise is settled takes its place.
  #make (promise) {
    const making = promise.then((made) => {
      if (this[kNative] === making) return (this[kNative] = made)
      native.snapshotClose(made)
      return this[kNative] // made at once, or null
    })
    making.catch(() => {}) // those who read tell it
    this[kNative] = making
  }

  // For calls that do not wait for a promise.
  [kNow] () {
    if (!isMade(this[kNative])) this[kNative] = native.snapshot(this.#context)
    return this[kNative]
  }

  async _close () {
    const snapshot = this[kNative]
    this[kNative] = null
    if (isMade(snapshot)) native.snapshotClose(snapshot)
  }
}

function assertLocation (location) {
  if (typeof location !== 'string' || location === '') {
    throw new TypeError("The first argument 'location' must be a non-empty string")
  }
}

// undefined: no snapshot; null: one that is closed, which reading will notice; a promise: one of a
// follower that is catching up.
// The name of a keyspace: of half a character UTF-8 would make another name.
function wellFormed (name) {
  if (/\p{Surrogate}/u.test(name)) {
    throw invalidArgument('The name of a keyspace has half of a character')
  }
  return name
}

function snapshotOf (family, options) {
  const snapshot = options.snapshot
  if (snapshot === undefined || snapshot === null) return undefined
  if (snapshot[kFamily] !== family) throw invalidArgument('The snapshot is none of this database')
  return snapshot[kNative]
}

// The same, but a follower catches up meanwhile.
function snapshotNow (family, options) {
  return isMade(snapshotOf(family, options)) ? snapshotOf(family, options) : options.snapshot[
    kNow]()
}

function isMade (snapshot) {
  return !(snapshot instanceof Promise)
}

function readFlags (options) {
  return (options.valueEncoding === 'utf8' ? 0 : AS_BUFFER) |
    (options.fillCache === false ? NO_FILL : 0)
}

exports.Loam = Loam
exports.kOpenWithin = kOpenWithin
exports.kNumber = kNumber
exports.kSettled = kSettled
exports.kOpening = kOpening
exports.kFailure = kFailure
exports.kClamps = kClamps
