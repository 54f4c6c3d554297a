'use strict'

const { native, library } = require('./loader')

// As in src/addon.h
exports.AS_BUFFER = 1
exports.NO_FILL = 2
exports.MAY_BLOCK = 4
exports.REVERSE = 8
exports.KEYS = 16
exports.VALUES = 32
exports.TEXT_KEYS = 64
exports.TEXT_VALUES = 128
exports.AFTER_LOWER = 256
exports.THROUGH_UPPER = 512
exports.EXACT = 1024

// As in loam.h
exports.SYNC = 1
exports.NO_STALL = 2

exports.native = native

let table = null
let ready = false

// Whether the engine is loaded.
exports.loaded = () => ready

// Loads the engine and resolves to its options: a map of their names here, such
// as writeBufferSize, to their names there and their ranges.
exports.engineOptions = function () {
  if (table === null) {
    table = native.load(library()).then(function (json) {
      ready = true
      const camel = (name) => name.replace(/_(.)/g, (_, c) => c.toUpperCase())
      return new Map(JSON.parse(json).map((option) => [camel(option.name), option]))
    })
    table.catch(() => { table = null })
  }
  return table
}

// ---- Bytes ----

// The methods behind buf.write() and buf.toString(), without their checks.
const { utf8Write, utf8Slice } = Buffer.prototype

exports.writeText = utf8Write !== undefined
  ? (buffer, text, at) => utf8Write.call(buffer, text, at)
  : (buffer, text, at) => buffer.write(text, at, 'utf8')

exports.readText = utf8Slice !== undefined
  ? (buffer, start, end) => utf8Slice.call(buffer, start, end)
  : (buffer, start, end) => buffer.toString('utf8', start, end)

// The class of Node's Buffers, of which Buffer itself is only the factory. To
// make one of other bytes is the cheapest copy with memory of its own.
const Species = Buffer[Symbol.species]

function speciesCopies () {
  if (typeof Species !== 'function' || Species === Buffer) return false
  const copy = new Species(new Uint8Array([1, 2]))
  return copy instanceof Buffer && copy.length === 2 && copy.buffer.byteLength === 2
}

const copy = speciesCopies()
  ? (view) => new Species(view)
  : function (view) {
    const buffer = Buffer.allocUnsafeSlow(view.length)
    buffer.set(view)
    return buffer
  }

// What is handed out has an ArrayBuffer of its own: its receiver may transfer
// it, and sees nothing else through it.
exports.copyBytes = (buffer, start, length) =>
  copy(new Uint8Array(buffer.buffer, buffer.byteOffset + start, length))

// The native side puts values here; nobody outside gets hold of it.
const scratch = native.scratch.buffer
const views = new Array(4097).fill(null)

exports.copyScratch = function (length) {
  if (length > 4096) return copy(new Uint8Array(scratch, native.scratch.byteOffset, length))
  let view = views[length]
  if (view === null) {
    view = views[length] = new Uint8Array(scratch, native.scratch.byteOffset, length)
  }
  return copy(view)
}

// Keys and values that the native side reads later than in the call: the caller may change or
// transfer them meanwhile.
exports.kept = (data) => data instanceof Uint8Array ? copy(data) : ArrayBuffer.isView(data) ?
  copy(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)) : data
