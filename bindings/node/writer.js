'use strict'

const { constants } = require('buffer')
const { writeText } = require('./binding')
const { tooLarge, invalidArgument } = require('./errors')

const HEADER = 12
// In the kind of an operation that names its keyspace.
const NAMED = 0x80
const KEEP = 4 * 1024 * 1024
const LONG = 1024 * 1024
// The most seconds to live, 292 years.
const LONGEST = 9223372036

function varintSize (n) {
  return n < 0x80 ? 1 : n < 0x4000 ? 2 : n < 0x200000 ? 3 : n < 0x10000000 ? 4 : 5
}

// Up to this length a loop is faster than a call into Node.
const SHORT = 24

// Writes a short string if it is ASCII, as most keys are.
function writeShort (buffer, text, at) {
  let any = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    any |= code
    buffer[at + i] = code
  }
  return any < 0x80
}

// The bytes that a string may need.
function room (text) {
  return text.length < LONG ? 3 * text.length : Buffer.byteLength(text)
}

// Seconds to live, rounded up.
function seconds (ttl) {
  if (typeof ttl !== 'number') throw new TypeError("The option 'ttl' must be a number of seconds")
  if (!(ttl > 0 && ttl <= LONGEST)) {
    throw invalidArgument(`A time to live of ${ttl} s: it must be above 0 and at most ${LONGEST}`)
  }
  return Math.ceil(ttl)
}

// The bytes of a typed array of any kind, or of a DataView, whose numbers an assignment would make
// bytes.
function bytesOf (data) {
  if (data instanceof Uint8Array) return data
  if (ArrayBuffer.isView(data)) {
    return new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  }
  throw new TypeError('a key or value must be a string or a Uint8Array')
}

// A value with its time to live behind it, in five bytes with the highest bit set: the write
// makes a deadline of it.
function withTtl (value, ttl) {
  const left = seconds(ttl)
  const bytes = typeof value === 'string' ? Buffer.from(value) : bytesOf(value)
  const behind = Buffer.alloc(5)
  behind.writeUInt32LE(left % 2 ** 32)
  behind[4] = 0x80 | Math.floor(left / 2 ** 32)
  return Buffer.concat([bytes, behind])
}

// A growing buffer.
class Bytes {
  constructor (size) {
    this.buffer = Buffer.allocUnsafeSlow(size)
    this.length = 0
  }

  reserve (n) {
    const need = this.length + n
    if (need <= this.buffer.length) return
    if (need > constants.MAX_LENGTH) {
      throw tooLarge(`${need} bytes in one write are more than a Buffer can hold`)
    }
    const grown = Buffer.allocUnsafeSlow(
      Math.max(need, Math.min(2 * this.buffer.length, constants.MAX_LENGTH)))
    grown.set(this.buffer.subarray(0, this.length))
    this.buffer = grown
  }
}

// Collects puts and deletes in LevelDB's batch layout: 8 bytes of zero, the
// count, then for each its kind, its key and a put's value, both with their
// length as a varint in front. An operation on a chosen keyspace has the keyspace's number after
// the kind;
// keyspace null is the one that is written.
// Knows nothing of the database.
class BatchWriter extends Bytes {
  constructor () {
    super(4096)
    this.buffer.fill(0, 0, HEADER)
    this.length = HEADER
    this.count = 0
  }

  put (key, value, keyspace = null) {
    this.#add(1, key, value, keyspace)
  }

  // ttl: seconds.
  putTtl (key, value, ttl, keyspace = null) {
    this.#add(48, key, withTtl(value, ttl), keyspace)
  }

  merge (key, operand, keyspace = null) {
    this.#add(2, key, operand, keyspace)
  }

  #add (kind, key, value, keyspace) {
    const start = this.length
    try {
      this.#kind(kind, keyspace)
      this.#bytes(key)
      this.#bytes(value)
      this.count++
    } catch (err) {
      this.length = start
      throw err
    }
  }

  del (key, keyspace = null) {
    const start = this.length
    try {
      this.#kind(0, keyspace)
      this.#bytes(key)
      this.count++
    } catch (err) {
      this.length = start
      throw err
    }
  }

  // numberOf gives the number of the keyspace that an operation names.
  add (operations, numberOf) {
    const start = this.length
    const count = this.count
    try {
      for (let i = 0; i < operations.length; i++) {
        const op = operations[i]
        // The remaining operations belong to a sublevel of another database.
        if (op.sublevel != null) {
          throw invalidArgument('A batch operation has a sublevel of another database')
        }
        const keyspace = op.keyspace == null ? null : numberOf(op.keyspace)
        if (op.type === 'put') this.#put(op, keyspace)
        else if (op.type === 'merge') this.merge(op.key, op.value, keyspace)
        else this.del(op.key, keyspace)
      }
    } catch (err) {
      this.length = start
      this.count = count
      throw err
    }
  }

  #put ({ key, value, ttl }, keyspace) {
    if (ttl === undefined || ttl === null) this.put(key, value, keyspace)
    else this.putTtl(key, value, ttl, keyspace)
  }

  // The whole batch, valid until the next change.
  finish () {
    this.buffer.writeUInt32LE(this.count, 8)
    return this.buffer
  }

  // Moves what was written after a state of length and count to a new writer.
  split (length, count) {
    const rest = new BatchWriter()
    const bytes = this.buffer.subarray(length, this.length)
    rest.reserve(bytes.length)
    rest.buffer.set(bytes, HEADER)
    rest.length = HEADER + bytes.length
    rest.count = this.count - count
    this.length = length
    this.count = count
    return rest
  }

  clear () {
    if (this.buffer.length > KEEP) {
      this.buffer = Buffer.allocUnsafeSlow(4096)
      this.buffer.fill(0, 0, HEADER)
    }
    this.length = HEADER
    this.count = 0
  }

  #kind (kind, keyspace) {
    this.reserve(6)
    if (keyspace === null) {
      this.buffer[this.length++] = kind
    } else {
      this.buffer[this.length++] = kind | NAMED
      this.#varint(keyspace)
    }
  }

  #bytes (data) {
    if (typeof data === 'string') {
      this.#text(data)
    } else {
      const bytes = bytesOf(data)
      this.reserve(5 + bytes.length)
      this.#varint(bytes.length)
      this.buffer.set(bytes, this.length)
      this.length += bytes.length
    }
  }

  #text (text) {
    this.reserve(5 + room(text))
    if (text.length <= SHORT && writeShort(this.buffer, text, this.length + 1)) {
      this.buffer[this.length] = text.length
      this.length += 1 + text.length
      return
    }
    // Guess that it is ASCII, and make room again when it was not.
    const guess = varintSize(text.length)
    const at = this.length + guess
    const n = writeText(this.buffer, text, at)
    const size = varintSize(n)
    if (size !== guess) this.buffer.copyWithin(this.length + size, at, at + n)
    this.#varint(n)
    this.length += n
  }

  #varint (n) {
    while (n >= 0x80) {
      this.buffer[this.length++] = (n & 0x7f) | 0x80
      n >>>= 7
    }
    this.buffer[this.length++] = n
  }
}

// Collects keys, each behind its length as 32 bits.
class KeyPacker extends Bytes {
  constructor () {
    super(1024)
    this.count = 0
  }

  add (key) {
    let n = key.length
    if (typeof key === 'string') {
      this.reserve(4 + room(key))
      if (n > SHORT || !writeShort(this.buffer, key, this.length + 4)) {
        n = writeText(this.buffer, key, this.length + 4)
      }
    } else {
      const bytes = bytesOf(key)
      n = bytes.length
      this.reserve(4 + n)
      this.buffer.set(bytes, this.length + 4)
    }
    const at = this.length
    this.buffer[at] = n
    this.buffer[at + 1] = n >>> 8
    this.buffer[at + 2] = n >>> 16
    this.buffer[at + 3] = n >>> 24
    this.length = at + 4 + n
    this.count++
  }

  clear () {
    if (this.buffer.length > KEEP) this.buffer = Buffer.allocUnsafeSlow(1024)
    this.length = 0
    this.count = 0
  }
}

exports.BatchWriter = BatchWriter
exports.KeyPacker = KeyPacker
exports.seconds = seconds
