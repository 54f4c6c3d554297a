'use strict'

const { AbstractIterator, AbstractKeyIterator, AbstractValueIterator } = require('abstract-level')
const { native, readText, copyBytes, kept, NO_FILL, REVERSE, KEYS, VALUES, TEXT_KEYS, TEXT_VALUES,
  AFTER_LOWER, THROUGH_UPPER, EXACT } = require('./binding')
const { AbortError, decodeError, invalidArgument, iteratorNotOpen, isError } = require('./errors')

const HIGH_WATER_MARK = 64 * 1024
const READ_AHEAD = 1000

// Often few entries are wanted in the beginning, or after a seek: the first read is of FIRST of
// them, or of the limit up to FEW, and of FIRST_BYTES.
const FIRST = 16
const FEW = 100
const FIRST_BYTES = 16 * 1024

// What a reader makes of an entry.
const ENTRY = 0 // [key, value]
const KEY = 1
const VALUE = 2

// ---- Ranges ----

// From options with encoded keys: the bounds, undefined for no bound, and flags for inclusive
// bounds. gte and lte win over gt and lt.
function bounds ({ gt, gte, lt, lte, reverse }) {
  return {
    lower: gte ?? gt ?? undefined,
    upper: lte ?? lt ?? undefined,
    flags: (gte == null ? AFTER_LOWER : 0) | (lte == null ? 0 : THROUGH_UPPER) |
      (reverse ? REVERSE : 0)
  }
}

// ---- Blocks ----

// Reads entries out of what the native side hands over: pieces with entries one
// behind the other, each as key length and value length (32-bit little-endian),
// key, value. A piece is a string when it can be: taking slices of one string
// is several times cheaper than making strings one by one. Large entries come as
// arrays of key and value, or as the Error that making them gave.
class BlockReader {
  #pieces = []
  #index = 0 // of the piece being read
  #at = 0 // in it

  // skip is how many bytes keys begin with that are not handed out: the prefix of a sublevel.
  constructor (options, part = ENTRY, skip = 0) {
    this.part = part
    this.skip = skip
    this.keys = part === KEY || part === ENTRY && options.keys !== false
    this.values = part === VALUE || part === ENTRY && options.values !== false
    this.textKeys = options.keyEncoding === 'utf8'
    this.textValues = options.valueEncoding === 'utf8'
    this.ended = false
  }

  get flags () {
    return (this.keys ? KEYS : 0) | (this.values ? VALUES : 0) | (this.textKeys ? TEXT_KEYS : 0) |
      (this.textValues ? TEXT_VALUES : 0)
  }

  get empty () {
    return this.#index >= this.#pieces.length
  }

  reset () {
    this.#pieces = []
    this.#index = 0
    this.#at = 0
    this.ended = false
  }

  // Takes over the answer of native.iteratorNext().
  fill (answer) {
    this.reset()
    if (answer === null) {
      this.ended = true
    } else {
      this.#pieces = answer
      if (answer[answer.length - 1] !== null) return
      answer.pop()
      this.ended = true
    }
  }

  // Up to size entries.
  take (size) {
    const entries = []
    while (entries.length < size && this.#index < this.#pieces.length) {
      const piece = this.#pieces[this.#index]
      let at
      if (typeof piece === 'string') at = this.#takeText(piece, size, entries)
      else if (piece instanceof Uint8Array) at = this.#takeBytes(piece, size, entries)
      else if (isError(piece) && entries.length > 0) break // first what comes before it
      else at = this.#takeOne(piece, entries)
      if (at < piece.length) {
        this.#at = at
      } else {
        this.#pieces[this.#index++] = null
        this.#at = 0
      }
    }
    return entries
  }

  // These return how far the piece has been read.

  #takeOne (piece, entries) {
    if (isError(piece)) {
      this.#pieces[this.#index++] = null
      throw piece
    }
    const [key, value] = piece
    entries.push(this.#item(this.skip === 0 || key === undefined ? key :
      typeof key === 'string' ? key.slice(this.skip) : key.subarray(this.skip), value))
    return piece.length
  }

  #item (key, value) {
    return this.part === ENTRY ? [key, value] : this.part === KEY ? key : value
  }

  #takeText (piece, size, entries) {
    const { keys, values, skip } = this
    const end = piece.length
    let at = this.#at
    while (at < end && entries.length < size) {
      const keyLength = piece.charCodeAt(at) | piece.charCodeAt(at + 1) << 8 | piece.charCodeAt(
        at + 2) << 16 | piece.charCodeAt(at + 3) << 24
      const valueLength = piece.charCodeAt(at + 4) | piece.charCodeAt(at + 5) << 8 |
        piece.charCodeAt(at + 6) << 16 | piece.charCodeAt(at + 7) << 24
      const start = at + 8
      const middle = start + keyLength
      at = middle + valueLength
      entries.push(
        this.#item(keys ? piece.slice(start + skip, middle) : undefined,
          values ? piece.slice(middle, at) : undefined))
    }
    return at
  }

  #takeBytes (piece, size, entries) {
    const { keys, values, textKeys, textValues, skip } = this
    const end = piece.length
    let at = this.#at
    while (at < end && entries.length < size) {
      const keyLength = (piece[at] | piece[at + 1] << 8 | piece[at + 2] << 16 |
        piece[at + 3] << 24) >>> 0
      const valueLength = (piece[at + 4] | piece[at + 5] << 8 | piece[at + 6] << 16 |
        piece[at + 7] << 24) >>> 0
      const start = at + 8
      const middle = start + keyLength
      at = middle + valueLength
      const key = !keys ? undefined : textKeys ? readText(piece, start + skip, middle) : copyBytes(
        piece, start + skip, keyLength - skip)
      const value = !values ? undefined : textValues ? readText(piece, middle, at) : copyBytes(
        piece, middle, valueLength)
      entries.push(this.#item(key, value))
    }
    return at
  }
}

function open (context, reader, options, snapshot, transaction) {
  const { lower, upper, flags } = bounds(options)
  const exact = waterMark(options) === undefined ? 0 : EXACT
  const fill = options.fillCache === true ? 0 : NO_FILL
  return native.iterator(context, snapshot, lower, upper, reader.flags | flags | exact | fill,
    transaction)
}

// undefined: none was given
function waterMark ({ highWaterMarkBytes: bytes }) {
  if (bytes === undefined || bytes === null) return undefined
  if (bytes === Infinity) return Number.MAX_SAFE_INTEGER
  if (Number.isSafeInteger(bytes) && bytes >= 0) return bytes
  throw invalidArgument("The option 'highWaterMarkBytes' must be a number of bytes")
}

// ---- Iterators ----

const prefixLength = (db) => db.prefix?.length ?? 0

// What all async iterators of the language have, such as disposal.
const AsyncIterator = Object.getPrototypeOf(Object.getPrototypeOf(async function * () {}.prototype))

// The iterators over Base, a class of abstract-level's, which read a part of each entry.
const reading = (Base, part) => class extends Base {
  #context
  #native
  // of a follower, which may have to catch up before: a promise of the snapshot to read
  #making = null
  #own = false // the snapshot is closed once the iterator has it
  #options // until the iterator is made
  #target // of a seek before that
  #failure = null // why it could not be made
  #reader
  #bytes
  #signal
  #snapshot
  #first = true
  #handed = 0 // items that Base does not count, see #hand
  #closed = false

  constructor (db, context, options, snapshot, follows) {
    super(db, options)
    this.#context = context
    this.#reader = new BlockReader(options, part, prefixLength(db))
    this.#signal = options.signal ?? null
    this.#snapshot = options.snapshot ?? null
    try {
      this.#bytes = waterMark(options) ?? HIGH_WATER_MARK
      this.#own = follows && snapshot === undefined
      if (this.#own || snapshot instanceof Promise) {
        this.#making = this.#own ? native.snapshotMake(context) : snapshot
        this.#making.catch(() => {}) // reading tells it
        this.#options = { ...options }
        for (const name of ['gt', 'gte', 'lt', 'lte']) {
          if (options[name] != null) this.#options[name] = kept(options[name])
        }
      } else {
        this.#native = open(context, this.#reader, options, snapshot)
      }
    } catch (err) {
      this.#failure = err // for reading to throw: the database already has this iterator to close
    }
  }

  get count () {
    return super.count + this.#handed
  }

  _seek (target) {
    if (this.#failure !== null) throw this.#failure
    this.#reader.reset()
    this.#first = true
    if (this.#making === null) native.iteratorSeek(this.#native, target)
    else this.#target = kept(target)
  }

  async #make () {
    const snapshot = await this.#making
    try {
      this.#native = open(this.#context, this.#reader, this.#options, snapshot)
    } catch (err) {
      this.#failure = err
      throw err
    } finally {
      if (this.#own) native.snapshotClose(snapshot)
      this.#making = null
    }
    if (this.#target !== undefined) native.iteratorSeek(this.#native, this.#target)
  }

  // Base counts only its own items against the limit; these count the items of #hand, too.

  _next () {
    const left = this.limit - this.count
    if (left <= 0) return undefined
    if (!this.#reader.empty) return this.#reader.take(1)[0]
    if (this.#reader.ended) return undefined
    return this.#fetchOne(left)
  }

  async #fetchOne (left) {
    const size = !this.#first ? READ_AHEAD : left <= FEW ? left : FIRST
    await this.#fetch(Math.min(size, left), this.#first ? Math.min(FIRST_BYTES, this.#bytes) :
      this.#bytes)
    return this.#reader.empty ? undefined : this.#reader.take(1)[0]
  }

  _nextv (size) {
    return this.#some(Math.min(size, this.limit - this.count))
  }

  async _all () {
    const all = []
    for (let left = this.limit - this.count; left > 0;) {
      const some = await this.#some(Math.min(left, READ_AHEAD))
      if (some.length === 0) break
      for (const item of some) all.push(item)
      left -= some.length
    }
    return all
  }

  #some (size) {
    if (size <= 0) return []
    if (!this.#reader.empty) return this.#reader.take(size)
    if (this.#reader.ended) return []
    return this.#fetchMany(size)
  }

  async #fetchMany (size) {
    await this.#fetch(size, this.#bytes)
    return this.#reader.take(size)
  }

  async #fetch (size, bytes) {
    if (this.#failure !== null) throw this.#failure
    if (this.#making !== null) await this.#make()
    this.#first = false
    const answer = await native.iteratorNext(this.#context, this.#native, size, bytes)
    if (this.#signal !== null && this.#signal.aborted) throw new AbortError()
    this.#reader.fill(answer)
  }

  // For `for await`. What was read ahead is handed over here, at a third of the time that Base
  // takes for an item; all else is the work of Base, closing and what throws included.
  [Symbol.asyncIterator] () {
    const slow = super[Symbol.asyncIterator]()
    let waiting = 0 // calls of slow under way, behind which others come
    let handed = false // an item, which slow does not know of
    let ended = false
    const end = async (ending) => {
      ended = true
      try {
        return await ending
      } finally {
        if (handed) await this.close() // slow may not have begun
      }
    }
    return {
      __proto__: AsyncIterator,
      next: () => {
        if (waiting === 0 && !ended && this.#ready()) {
          try {
            const value = this.#hand()
            handed = true
            return Promise.resolve({ done: false, value })
          } catch (err) {
            handed = true
            return end(slow.throw(err))
          }
        }
        waiting++
        return slow.next().finally(() => { waiting-- })
      },
      return: (value) => end(slow.return(value)),
      throw: (err) => end(slow.throw(err))
    }
  }

  // Whether next() would succeed without a wait.
  #ready () {
    return !this.#reader.empty && !this.#closed && !this.#signal?.aborted && this.count < this.limit
  }

  // The next item, decoded.
  #hand () {
    this.#snapshot?.ref() // throws once it is closed
    this.#snapshot?.unref()
    const item = this.#reader.take(1)[0]
    const keys = this[AbstractIterator.keyEncoding]
    const values = this[AbstractIterator.valueEncoding]
    let decoded = item
    try {
      if (part === KEY) decoded = keys.decode(item)
      else if (part === VALUE) decoded = values.decode(item)
      else decodeEntry(item, keys, values)
    } catch (err) {
      throw decodeError('Iterator could not decode data', err)
    }
    this.#handed++
    return decoded
  }

  close () {
    this.#closed = true
    return super.close()
  }

  async _close () {
    this.#reader.reset()
    if (this.#making !== null) await this.#making.then((snapshot) => {
      if (this.#own) native.snapshotClose(snapshot)
    }, () => {})
    else if (this.#failure === null) native.iteratorClose(this.#native)
  }
}

function decodeEntry (entry, keys, values) {
  if (entry[0] !== undefined) entry[0] = keys.decode(entry[0])
  if (entry[1] !== undefined) entry[1] = values.decode(entry[1])
}

const Iterator = reading(AbstractIterator, ENTRY)
const KeyIterator = reading(AbstractKeyIterator, KEY)
const ValueIterator = reading(AbstractValueIterator, VALUE)

// Databases hold what they close. Of a SyncIterator that is only a reference that lets it be
// collected, as a loop by next() that is left early closes nothing.
const collected = new FinalizationRegistry(({ db, resource }) => db.detachResource(resource))

function closeWith (db, iterator) {
  const reference = new WeakRef(iterator)
  const resource = { close: async () => reference.deref()?.close() }
  db.attachResource(resource)
  collected.register(iterator, { db, resource }, resource)
  return resource
}

// What db.iteratorSync() returns: an iterable iterator that reads on the
// JavaScript thread.
class SyncIterator {
  #db
  #native
  #reader
  #bytes
  #keyEncoding
  #valueEncoding
  #left
  #snapshot
  #resource
  #open = true
  #ended = false // was read to its end, or left by return()

  constructor (db, context, options, encodings, snapshot) {
    this.#db = db
    this.#keyEncoding = encodings.key
    this.#valueEncoding = encodings.value
    this.#reader = new BlockReader(options, ENTRY, prefixLength(db))
    this.#bytes = waterMark(options) ?? HIGH_WATER_MARK
    this.#left = Number.isInteger(options.limit) && options.limit >= 0 ? options.limit : Infinity
    this.#snapshot = options.snapshot ?? null
    this.#native = open(context, this.#reader, options, snapshot)
    this.#resource = closeWith(db, this)
  }

  next () {
    const entries = this.nextv(1)
    return entries.length === 1 ? { done: false, value: entries[0] } :
      { done: true, value: undefined }
  }

  nextv (size) {
    if (!Number.isInteger(size)) throw new TypeError("The first argument 'size' must be an integer")
    if (this.#ended) return []
    if (!this.#open) throw iteratorNotOpen()
    const entries = this.#read(Math.min(Math.max(size, 1), this.#left))
    if (entries.length === 0) this.return()
    for (const entry of entries) this.#decode(entry)
    this.#left -= entries.length
    return entries
  }

  all () {
    const all = []
    try {
      for (let entries; (entries = this.nextv(READ_AHEAD)).length > 0;) {
        for (const entry of entries) all.push(entry)
      }
    } finally {
      this.close()
    }
    return all
  }

  seek (target, options) {
    if (!this.#open) return
    const encoding = options?.keyEncoding === undefined ? this.#keyEncoding : this.#db.keyEncoding(
      options.keyEncoding)
    this.#reader.reset()
    native.iteratorSeek(this.#native, this.#db.prefixKey(encoding.encode(target), encoding.format,
      false))
  }

  close () {
    if (!this.#open) return
    this.#open = false
    this.#reader.reset()
    native.iteratorClose(this.#native)
    collected.unregister(this.#resource)
    this.#db.detachResource(this.#resource)
  }

  return (value) {
    if (this.#open) this.#ended = true
    this.close()
    return { done: true, value }
  }

  [Symbol.iterator] () {
    return this
  }

  #read (size) {
    if (size === 0) return []
    this.#snapshot?.ref()
    try {
      if (this.#reader.empty && !this.#reader.ended) {
        this.#reader.fill(
          native.iteratorNextSync(this.#native, Math.min(Math.max(size, READ_AHEAD), this.#left),
            this.#bytes))
      }
      return this.#reader.take(size)
    } finally {
      this.#snapshot?.unref()
    }
  }

  #decode (entry) {
    try {
      decodeEntry(entry, this.#keyEncoding, this.#valueEncoding)
    } catch (err) {
      throw decodeError('Iterator could not decode data', err)
    }
  }
}

if (typeof Symbol.dispose === 'symbol') {
  SyncIterator.prototype[Symbol.dispose] = SyncIterator.prototype.close
}

exports.BlockReader = BlockReader
exports.openIterator = open
exports.HIGH_WATER_MARK = HIGH_WATER_MARK
exports.READ_AHEAD = READ_AHEAD
exports.Iterator = Iterator
exports.KeyIterator = KeyIterator
exports.ValueIterator = ValueIterator
exports.SyncIterator = SyncIterator
exports.bounds = bounds
