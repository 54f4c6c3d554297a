'use strict'

const { native } = require('./binding')
const { cacheNotOpen, invalidArgument } = require('./errors')

const UNITS = { '': 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 }

// Bytes of a number, or of text such as '64MiB'.
function bytes (size) {
  const match = /^(\d+)\s*(|KiB|MiB|GiB)$/.exec(String(size))
  const n = match === null ? NaN : Number(match[1]) * UNITS[match[2]]
  if (!Number.isSafeInteger(n)) throw invalidArgument("The size of a cache must be a number of bytes, or text such as '64MiB'")
  return n
}

// A block cache that several databases share. Made by the engine when the first
// of them opens.
class Cache {
  #bytes
  #native = null
  #closed = false

  constructor (size) {
    this.#bytes = bytes(size)
  }

  // For the native side; the engine is loaded.
  native () {
    if (this.#closed) throw cacheNotOpen()
    this.#native ??= native.cache(this.#bytes)
    return this.#native
  }

  // Databases that have it keep it.
  close () {
    this.#closed = true
    if (this.#native !== null) native.cacheClose(this.#native)
    this.#native = null
  }
}

if (typeof Symbol.dispose === 'symbol') Cache.prototype[Symbol.dispose] = Cache.prototype.close

exports.Cache = Cache
