'use strict'

// The protocol of loamd, docs/format-loamd.md: numbers, frames, calls, answers and errors.

const { createHash } = require('crypto')
const zlib = require('zlib')
const ModuleError = require('module-error')

const HEADER = 8
const CALL_HEADER = 9
const MAX_BODY = (8 << 20) + (64 << 10)
const MAX_CHANGE = 8 << 20
const VERSION = 1

exports.MAX_BODY = MAX_BODY

exports.OPERATIONS = { status: 1, get: 2, has: 3, multiGet: 4, scan: 5, snapshot: 6, release: 7,
  write: 8, addVoter: 9, addReader: 10, remove: 11, transfer: 12, checkpoint: 13 }

// ---- Errors ----

const NOT_APPLIED = 1
const UNKNOWN = 2
const TOO_LARGE = 32
const AGAIN = 4 | 8 | 256 // unavailable, halted, too old: another node may do it

// The codes of the protocol's flags by bit. What says most comes first.
const CODES = [[10, 'LEVEL_REFUSED'], [9, 'LEVEL_UNAUTHORIZED'], [5, 'LEVEL_TOO_LARGE'],
  [6, 'LEVEL_CONFLICT'], [7, 'LEVEL_SNAPSHOT_GONE'], [8, 'LEVEL_TOO_OLD'], [11, 'LEVEL_CORRUPTION'],
  [12, 'LEVEL_BUSY'], [13, 'LEVEL_NEWER_FORMAT'], [14, 'LEVEL_NO_SPACE'],
  [15, 'LEVEL_DATABASE_EXISTS'], [3, 'LEVEL_HALTED'], [2, 'LEVEL_UNAVAILABLE'],
  [1, 'LEVEL_UNKNOWN'], [4, 'LEVEL_INVALID_ARGUMENT'], [0, 'LEVEL_NOT_APPLIED']]

class RemoteError extends ModuleError {
  // flags are those of the protocol; nodes says that a node answered.
  constructor (message, { code, flags = 0, cause, node = false }) {
    super(message, { code: code ?? CODES.find(([bit]) => flags & (1 << bit))?.[1] ??
      'LEVEL_REMOTE', cause })
    this.notApplied = (flags & NOT_APPLIED) !== 0
    this.unknown = (flags & UNKNOWN) !== 0
    Object.defineProperty(this, 'again', {
      value: node ? (flags & (AGAIN | UNKNOWN)) !== 0 && !(flags & (1 << 9)) : !(flags & TOO_LARGE)
    })
    Object.defineProperty(this, 'node', { value: node })
  }
}

exports.RemoteError = RemoteError

exports.lost = (addr, cause) => new RemoteError(
  `${addr}: connection lost${cause ? `: ${cause.message}` : ''}`,
  { code: 'LEVEL_UNAVAILABLE', cause })

// Of an answer that is damaged, though its frame is not: it counts as a lost connection does.
exports.malformed = (addr) => new RemoteError(`${addr}: a malformed answer`,
  { code: 'LEVEL_UNAVAILABLE' })

// ---- Numbers and bytes ----

const crcTable = zlib.crc32 ? undefined : Array.from({ length: 256 }, (_, i) => {
  for (let j = 0; j < 8; j++) i = i & 1 ? (i >>> 1) ^ 0xedb88320 : i >>> 1
  return i >>> 0
})

function crc32 (buffer) {
  if (!crcTable) return zlib.crc32(buffer)
  let crc = 0xffffffff
  for (let i = 0; i < buffer.length; i++) crc = crcTable[(crc ^ buffer[i]) & 255] ^ (crc >>> 8)
  return ~crc >>> 0
}

function varint (n) {
  const out = []
  for (; n > 127; n = Math.floor(n / 128)) out.push((n % 128) | 128)
  out.push(n)
  return Buffer.from(out)
}

exports.varint = varint
exports.bytes = (b) => [varint(b.length), b]

// Reads one field after the other. After a malformed one bad is set, and all are empty.
class Fields {
  constructor (buffer) {
    this.buffer = buffer
    this.at = 0
    this.bad = false
  }

  get empty () {
    return this.at >= this.buffer.length
  }

  one () {
    if (this.empty) this.bad = true
    return this.bad ? 0 : this.buffer[this.at++]
  }

  bool () {
    const byte = this.one()
    if (byte > 1) this.bad = true
    return byte === 1
  }

  number () {
    let n = 0
    for (let unit = 1; unit <= 2 ** 49; unit *= 128) {
      const byte = this.one()
      n += (byte & 127) * unit
      if (byte < 128) return n
    }
    this.bad = true
    return 0
  }

  bytes () {
    const n = this.number()
    if (n > this.buffer.length - this.at) this.bad = true
    if (this.bad) return Buffer.alloc(0)
    this.at += n
    return this.buffer.subarray(this.at - n, this.at)
  }
}

exports.Fields = Fields

// ---- Frames ----

exports.frame = function (parts) {
  const body = Buffer.concat([Buffer.alloc(HEADER), ...parts])
  body.writeUInt32LE(body.length - HEADER, 0)
  body.writeUInt32LE(crc32(body.subarray(HEADER)), 4)
  return body
}

// Cuts a stream into the bodies of frames. It keeps at most one frame that is not whole.
class Cutter {
  #chunks = []
  #have = 0
  #need = HEADER

  // Calls f with each body that is whole; throws where the stream is not the protocol's.
  add (chunk, f) {
    this.#chunks.push(chunk)
    this.#have += chunk.length
    while (this.#have >= this.#need) {
      const all = this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks)
      const length = all.readUInt32LE(0)
      if (length > MAX_BODY) throw new Error(`a frame of ${length} bytes`)
      this.#chunks = [all]
      if (all.length < HEADER + length) {
        this.#need = HEADER + length
        return
      }
      const body = all.subarray(HEADER, HEADER + length)
      if (crc32(body) !== all.readUInt32LE(4)) throw new Error('a frame with a wrong checksum')
      const rest = all.subarray(HEADER + length)
      this.#chunks = rest.length > 0 ? [rest] : []
      this.#have = rest.length
      this.#need = HEADER
      f(body)
    }
  }
}

exports.Cutter = Cutter

exports.greeting = ({ cluster = '', token = '' }) => exports.frame([Buffer.from('LOAM'),
  Buffer.from([VERSION, 0]), ...exports.bytes(Buffer.from(cluster)),
  ...exports.bytes(Buffer.from(token))])

// The error of a call that no node takes, or undefined.
exports.tooLarge = function (parts) {
  const size = parts.reduce((n, p) => n + p.length, CALL_HEADER)
  if (size <= MAX_BODY) return undefined
  return new RemoteError(`a call of ${size} bytes, and at most ${MAX_BODY} go`,
    { flags: TOO_LARGE })
}

exports.call = function (number, timeout, op, parts) {
  const head = Buffer.alloc(CALL_HEADER)
  head.writeUInt32LE(number, 0)
  head.writeUInt32LE(Math.min(Math.max(Math.ceil(timeout), 1), 0xffffffff), 4)
  head[8] = op
  return exports.frame([head, ...parts])
}

// The number of the call, and its result, or its error and the error's text.
exports.answer = function (addr, body) {
  if (body.length < 8) throw new Error('an answer of few bytes')
  const number = body.readUInt32LE(0)
  const flags = body.readUInt32LE(4)
  const rest = body.subarray(8)
  if (flags === 0) return { number, result: rest }
  const text = rest.toString()
  return { number, text, error: new RemoteError(`${addr}: ${text}`, { flags, node: true }) }
}

// ---- Arguments ----

const LOCAL = 1
const AT_SNAPSHOT = 2

exports.LINEARIZABLE = [Buffer.from([0])]
exports.local = (maxLag) => [Buffer.from([LOCAL]), varint(Math.max(Math.ceil(maxLag), 0))]
exports.atSnapshot = (id) => [Buffer.from([AT_SNAPSHOT]), varint(id)]

exports.scan = function ({ keysOnly, backward, lower, upper, entries, bytes }) {
  const flags = (keysOnly ? 1 : 0) | (backward ? 2 : 0) | (lower ? 4 : 0) | (upper ? 8 : 0)
  return [Buffer.from([flags]), ...(lower ? exports.bytes(lower) : []),
    ...(upper ? exports.bytes(upper) : []), varint(entries), varint(bytes)]
}

const LONG_VALUE = 64

// What the value of a key has to be; undefined: none.
exports.condition = function (key, value) {
  if (value === undefined) return [...exports.bytes(key), Buffer.from([0])]
  if (value.length < LONG_VALUE) {
    return [...exports.bytes(key), Buffer.from([1]), ...exports.bytes(value)]
  }
  return [...exports.bytes(key), Buffer.from([2]),
    ...exports.bytes(createHash('sha256').update(value).digest())]
}

// operations are pairs of a key and a value, undefined to delete it; ranges pairs of keys.
exports.change = function ({ once = '', conditions = [], ranges = [], operations = [] }) {
  const key = Buffer.from(once)
  if (key.length > 255) {
    throw new RemoteError('an idempotency key has at most 255 bytes',
      { code: 'LEVEL_INVALID_ARGUMENT', flags: NOT_APPLIED })
  }
  const head = Buffer.alloc(12)
  head.writeUInt32LE(operations.length, 8)
  const parts = [Buffer.from([ranges.length > 0 ? 2 : 1]), ...exports.bytes(key),
    varint(conditions.length), ...conditions.flat()]
  if (ranges.length > 0) {
    parts.push(varint(ranges.length), ...ranges.flat().flatMap(exports.bytes))
  }
  parts.push(head)
  for (const [k, v] of operations) {
    parts.push(Buffer.from([v === undefined ? 0 : 1]), ...exports.bytes(k),
      ...(v === undefined ? [] : exports.bytes(v)))
  }
  const size = parts.reduce((n, p) => n + p.length, 0)
  if (size > MAX_CHANGE) {
    throw new RemoteError(`a change of ${size} bytes, and at most ${MAX_CHANGE} go: cut it`,
      { code: 'LEVEL_TOO_LARGE', flags: NOT_APPLIED })
  }
  return parts
}
