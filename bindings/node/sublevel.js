'use strict'

const { AbstractSublevel, AbstractChainedBatch } = require('abstract-level')
const { kept } = require('./binding')
const { Iterator, KeyIterator, ValueIterator } = require('./iterator')
const sync = require('./sync')
const { tellCause } = require('./errors')

// A sublevel with the synchronous methods of its database. What they do comes
// down to the same methods of the parent, as with the asynchronous ones.
class Sublevel extends AbstractSublevel {
  #failure // a function: why the database did not open

  constructor (db, name, options, failure) {
    super(db, name, options)
    this.#failure = failure
  }

  _sublevel (name, options) {
    return new Sublevel(this, name, options, this.#failure)
  }

  _chainedBatch () {
    return new ChainedBatch(this)
  }

  _iterator (options) {
    return this.db[sync.kReading](Iterator, this, sync.rootedOptions(this, options))
  }

  _keys (options) {
    return this.db[sync.kReading](KeyIterator, this, sync.rootedOptions(this, options))
  }

  _values (options) {
    return this.db[sync.kReading](ValueIterator, this, sync.rootedOptions(this, options))
  }

  open (options) {
    const opening = super.open(options)
    opening.catch((err) => tellCause(err, this.#failure()))
    return opening
  }

  deferAsync (fn, options) {
    const deferred = super.deferAsync(fn, options)
    deferred.catch((err) => tellCause(err, this.#failure()))
    return deferred
  }

  async deleteRange (start, limit, options) {
    if (this.status === 'opening') {
      return this.deferAsync(() => this.deleteRange(start, limit, options))
    }
    return sync.deleteRange(this, start, limit, options)
  }

  [sync.kDeleteRange] (start, limit, keyEncoding, options) {
    return this.parent.deleteRange(start, limit, { ...options, keyEncoding })
  }

  deleteRangeSync (start, limit, options) {
    sync.deleteRange(this, start, limit, options, sync.kDeleteRangeSync)
  }

  [sync.kDeleteRangeSync] (start, limit, keyEncoding, options) {
    this.parent.deleteRangeSync(start, limit, { ...options, keyEncoding })
  }

  async merge (key, operand, options) {
    if (this.status === 'opening') return this.deferAsync(() => this.merge(key, operand, options))
    sync.assertOpen(this, 'merge')
    this._assertValidValue(operand)
    return this.db.merge(...sync.rooted(this, key, [operand], options))
  }

  mergeSync (key, operand, options) {
    sync.mergeSync(this, key, operand, options)
  }

  async compareAndSwap (key, old, value, options) {
    if (this.status === 'opening') {
      return this.deferAsync(() => this.compareAndSwap(key, old, value, options))
    }
    sync.assertOpen(this, 'compareAndSwap')
    return this.db.compareAndSwap(...sync.rooted(this, key, [old, value], options))
  }

  async putIfAbsent (key, value, options) {
    this._assertValidValue(value)
    return this.compareAndSwap(key, undefined, value, options)
  }

  // A transaction of the database, in which keys stand without the sublevel's prefix.
  async transaction (fn, options) {
    if (this.status === 'opening') return this.deferAsync(() => this.transaction(fn, options))
    sync.assertOpen(this, 'transaction')
    return this.db[sync.kTransaction](this, fn, options)
  }

  async approximateSize (start, end, options) {
    return (await this.approximateSizes([[start, end]], options))[0]
  }

  async approximateSizes (ranges, options) {
    if (this.status === 'opening') {
      return this.deferAsync(() => this.approximateSizes(ranges, options))
    }
    sync.assertOpen(this, 'approximateSizes')
    const rooted = [...ranges].map((range) => sync.rootedRange(this, range, options))
    return this.db.approximateSizes(rooted.map(([range]) => range), rooted[0]?.[1])
  }

  async compact (start, stop, options) {
    if (this.status === 'opening') return this.deferAsync(() => this.compact(start, stop, options))
    sync.assertOpen(this, 'compact')
    const [range, rooted] = sync.rootedRange(this, [start, stop], options)
    return this.db.compact(...range, rooted)
  }

  // These concern the whole database.

  async sync () {
    if (this.status === 'opening') return this.deferAsync(() => this.sync())
    sync.assertOpen(this, 'sync')
    return this.db.sync()
  }

  async flush () {
    if (this.status === 'opening') return this.deferAsync(() => this.flush())
    sync.assertOpen(this, 'flush')
    return this.db.flush()
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

  iteratorSync (options) {
    return sync.iterator(this, options, (encoded, encodings) => this.db[sync.kIterator](
      this, encoded, encodings))
  }

  [sync.kPut] (key, value, keyEncoding, valueEncoding, options) {
    this.parent.putSync(key, value, { ...options, keyEncoding, valueEncoding })
  }

  [sync.kDel] (key, keyEncoding, options) {
    this.parent.delSync(key, { ...options, keyEncoding })
  }

  [sync.kBatch] (operations, options) {
    this.parent.batchSync(operations, options)
  }
}

// Of a database or a sublevel.
class ChainedBatch extends AbstractChainedBatch {
  #operations = []

  constructor (db) {
    super(db, { add: true })
  }

  // Buffers may be used again at once, as with classic-level.
  _add (operation) {
    operation.key = kept(operation.key)
    if (operation.type !== 'del') operation.value = kept(operation.value)
    this.#operations.push(operation)
  }

  _clear () {
    this.#operations = []
  }

  async _write (options) {
    return this.db._batch(this.#operations, options)
  }
}

exports.Sublevel = Sublevel
exports.ChainedBatch = ChainedBatch
