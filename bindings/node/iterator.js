'use strict'

const { AbstractIterator } = require('abstract-level')
const ModuleError = require('module-error')
const { native, readText, NO_FILL, REVERSE, KEYS, VALUES, TEXT } = require('./binding')

const HIGH_WATER_MARK = 64 * 1024
const READ_AHEAD = 1000

// ---- Ranges ----

// The smallest key above the given one.
function successor (key) {
  return typeof key === 'string' ? key + '\0' : Buffer.concat([key, Buffer.alloc(1)])
}

// From options with encoded keys: the first key in the range, and the first
// that is not, undefined for none. gte and lte win over gt and lt.
function bounds ({ gt, gte, lt, lte }) {
  return {
    lower: gte ?? (gt == null ? undefined : successor(gt)),
    upper: lte == null ? lt : successor(lte)
  }
}

// ---- Blocks ----

// Reads entries out of what the native side hands over: pieces with entries one
// behind the other, each as key length and value length (32-bit little-endian),
// key, value. A piece is a string when it can be: taking slices of one string
// is several times cheaper than making strings one by one.
class BlockReader {
  #pieces = []
  #index = 0 // of the piece being read
  #at = 0 // in it

  constructor (options) {
    this.keys = options.keys !== false
    this.values = options.values !== false
    this.textKeys = options.keyEncoding === 'utf8'
    this.textValues = options.valueEncoding === 'utf8'
    this.ended = false
  }

  get flags () {
    const text = (!this.keys || this.textKeys) && (!this.values || this.textValues)
    return (this.keys ? KEYS : 0) | (this.values ? VALUES : 0) | (text ? TEXT : 0)
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

  // Up to size entries, as [key, value].
  take (size) {
    const entries = []
    while (entries.length < size && this.#index < this.#pieces.length) {
      const piece = this.#pieces[this.#index]
      const at = typeof piece === 'string'
        ? this.#takeText(piece, size, entries)
        : this.#takeBytes(piece, size, entries)
      if (at < piece.length) {
        this.#at = at
      } else {
        this.#pieces[this.#index++] = null
        this.#at = 0
      }
    }
    return entries
  }

  #takeText (piece, size, entries) {
    const { keys, values } = this
    const end = piece.length
    let at = this.#at
    while (at < end && entries.length < size) {
      const keyLength = piece.charCodeAt(at) | piece.charCodeAt(at + 1) << 8 | piece.charCodeAt(at + 2) << 16 | piece.charCodeAt(at + 3) << 24
      const valueLength = piece.charCodeAt(at + 4) | piece.charCodeAt(at + 5) << 8 | piece.charCodeAt(at + 6) << 16 | piece.charCodeAt(at + 7) << 24
      const start = at + 8
      const middle = start + keyLength
      at = middle + valueLength
      entries.push([keys ? piece.slice(start, middle) : undefined, values ? piece.slice(middle, at) : undefined])
    }
    return at
  }

  #takeBytes (piece, size, entries) {
    const { keys, values, textKeys, textValues } = this
    const { buffer, byteOffset } = piece
    const end = piece.length
    let at = this.#at
    while (at < end && entries.length < size) {
      const keyLength = (piece[at] | piece[at + 1] << 8 | piece[at + 2] << 16 | piece[at + 3] << 24) >>> 0
      const valueLength = (piece[at + 4] | piece[at + 5] << 8 | piece[at + 6] << 16 | piece[at + 7] << 24) >>> 0
      const start = at + 8
      const middle = start + keyLength
      at = middle + valueLength
      const key = !keys ? undefined : textKeys ? readText(piece, start, middle) : Buffer.from(buffer, byteOffset + start, keyLength)
      const value = !values ? undefined : textValues ? readText(piece, middle, at) : Buffer.from(buffer, byteOffset + middle, valueLength)
      entries.push([key, value])
    }
    return at
  }
}

function open (context, reader, options, snapshot) {
  const { lower, upper } = bounds(options)
  const flags = reader.flags | (options.fillCache === true ? 0 : NO_FILL) | (options.reverse ? REVERSE : 0)
  return native.iterator(context, snapshot, lower, upper, flags)
}

function waterMark ({ highWaterMarkBytes }) {
  return Number.isInteger(highWaterMarkBytes) && highWaterMarkBytes > 0 ? Math.min(highWaterMarkBytes, 0x7fffffff) : HIGH_WATER_MARK
}

// ---- Iterators ----

class Iterator extends AbstractIterator {
  #context
  #native
  #reader
  #bytes
  #signal
  #first = true

  constructor (db, context, options, snapshot) {
    super(db, options)
    this.#context = context
    this.#reader = new BlockReader(options)
    this.#bytes = waterMark(options)
    this.#signal = options.signal ?? null
    this.#native = open(context, this.#reader, options, snapshot)
  }

  _seek (target) {
    this.#reader.reset()
    this.#first = true
    native.iteratorSeek(this.#native, target)
  }

  _next () {
    if (!this.#reader.empty) return this.#reader.take(1)[0]
    if (this.#reader.ended) return undefined
    return this.#fetchOne()
  }

  async #fetchOne () {
    // Often only one entry is wanted in the beginning, or after a seek.
    const size = this.#first ? 1 : READ_AHEAD
    await this.#fetch(Math.min(size, this.limit - this.count))
    return this.#reader.empty ? undefined : this.#reader.take(1)[0]
  }

  _nextv (size) {
    if (!this.#reader.empty) return this.#reader.take(size)
    if (this.#reader.ended) return []
    return this.#fetchMany(size)
  }

  async #fetchMany (size) {
    await this.#fetch(size)
    return this.#reader.take(size)
  }

  async #fetch (size) {
    this.#first = false
    const answer = await native.iteratorNext(this.#context, this.#native, size, this.#bytes)
    if (this.#signal !== null && this.#signal.aborted) throw new AbortError()
    this.#reader.fill(answer)
  }

  async _close () {
    this.#reader.reset()
    native.iteratorClose(this.#native)
  }
}

class AbortError extends ModuleError {
  constructor () {
    super('Operation has been aborted', { code: 'LEVEL_ABORTED' })
  }

  // Whatever the class is called, as with the errors of AbortSignal.
  get name () {
    return 'AbortError'
  }
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
  #open = true

  constructor (db, context, options, encodings, snapshot) {
    this.#db = db
    this.#keyEncoding = encodings.key
    this.#valueEncoding = encodings.value
    this.#reader = new BlockReader(options)
    this.#bytes = waterMark(options)
    this.#left = options.limit >= 0 ? options.limit : Infinity
    this.#snapshot = options.snapshot ?? null
    this.#native = open(context, this.#reader, options, snapshot)
    db.attachResource(this)
  }

  next () {
    const entries = this.nextv(1)
    if (entries.length === 1) return { done: false, value: entries[0] }
    this.close()
    return { done: true, value: undefined }
  }

  nextv (size) {
    if (!Number.isInteger(size)) throw new TypeError("The first argument 'size' must be an integer")
    if (!this.#open) return []
    const entries = this.#read(Math.min(Math.max(size, 1), this.#left))
    for (const entry of entries) this.#decode(entry)
    this.#left -= entries.length
    return entries
  }

  all () {
    const all = []
    for (let entries; (entries = this.nextv(READ_AHEAD)).length > 0;) {
      for (const entry of entries) all.push(entry)
    }
    this.close()
    return all
  }

  seek (target, options) {
    if (!this.#open) return
    const encoding = options?.keyEncoding === undefined ? this.#keyEncoding : this.#db.keyEncoding(options.keyEncoding)
    this.#reader.reset()
    native.iteratorSeek(this.#native, encoding.encode(target))
  }

  close () {
    if (!this.#open) return
    this.#open = false
    this.#reader.reset()
    native.iteratorClose(this.#native)
    this.#db.detachResource(this)
  }

  return (value) {
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
        this.#reader.fill(native.iteratorNextSync(this.#native, Math.min(Math.max(size, READ_AHEAD), this.#left), this.#bytes))
      }
      return this.#reader.take(size)
    } finally {
      this.#snapshot?.unref()
    }
  }

  #decode (entry) {
    try {
      if (entry[0] !== undefined) entry[0] = this.#keyEncoding.decode(entry[0])
      if (entry[1] !== undefined) entry[1] = this.#valueEncoding.decode(entry[1])
    } catch (err) {
      throw new ModuleError('Iterator could not decode data', { code: 'LEVEL_DECODE_ERROR', cause: err })
    }
  }
}

if (typeof Symbol.dispose === 'symbol') {
  SyncIterator.prototype[Symbol.dispose] = SyncIterator.prototype.close
}

exports.Iterator = Iterator
exports.SyncIterator = SyncIterator
exports.bounds = bounds
