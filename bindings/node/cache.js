'use strict'

const { native, loaded } = require('./binding')
const { cacheNotOpen, checkNames, invalidArgument } = require('./errors')

const LIMITS = ['memory', 'backgroundJobs', 'ioBytesPerSecond', 'openFiles']

const AUTO = 'auto' // -1 for the native side

const UNITS = { '': 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 }

// Bytes of a number, or of text such as '64MiB'.
function bytes (size, what = 'a cache') {
  const match = /^(\d+)\s*(|KiB|MiB|GiB)$/.exec(String(size))
  const n = match === null ? NaN : Number(match[1]) * UNITS[match[2]]
  if (!Number.isSafeInteger(n)) {
    throw invalidArgument(`The size of ${what} must be a number of bytes, or text such as '64MiB'`)
  }
  return n
}

// A block cache that several databases share. Made by the engine when the first
// of them opens.
class Cache {
  #make
  #native = null
  #closed = false

  constructor (size) {
    if (new.target !== Resources) size = bytes(size)
    this.#make = () => new.target === Resources ? native.resources(...size) : native.cache(size)
  }

  // For the native side; the engine is loaded.
  native () {
    if (this.#closed) throw cacheNotOpen()
    this.#native ??= this.#make()
    return this.#native
  }

  // Databases that have it keep it.
  close () {
    this.#closed = true
    if (this.#native !== null) native.cacheClose(this.#native)
    this.#native = null
  }
}

// What several databases share, a cache among it. Made as a Cache is.
class Resources extends Cache {
  #first = [] // limits that were set before a database was opened

  constructor (options = {}) {
    checkNames(options, LIMITS)
    const { memory = 0, backgroundJobs = 0, ioBytesPerSecond = 0, openFiles = 0 } = options
    super([memory, backgroundJobs, ioBytesPerSecond, openFiles].map((limit, i) =>
      limit === AUTO && LIMITS[i] === 'memory' ? -1 : bytes(limit, 'resources')))
  }

  native () {
    const made = super.native()
    for (const [name, value] of this.#first.splice(0)) native.resourcesSet(made, name, value)
    return made
  }

  // Changes a limit by its name in the constructor, at once if a database has been opened.
  set (name, value) {
    if (!LIMITS.includes(name)) throw invalidArgument(`There is no resource '${String(name)}'`)
    const auto = value === AUTO && name === 'memory'
    const pair = [snake(name), auto ? AUTO : String(bytes(value, 'resources'))]
    if (loaded()) native.resourcesSet(this.native(), ...pair)
    else this.#first.push(pair)
  }

  metrics () {
    if (!loaded()) throw invalidArgument('Resources have metrics once a database was opened')
    return JSON.parse(native.resourcesMetrics(this.native()))
  }
}

// The name of an option in the engine.
function snake (name) {
  return name.replace(/[A-Z]/g, (c) => '_' + c.toLowerCase())
}

if (typeof Symbol.dispose === 'symbol') Cache.prototype[Symbol.dispose] = Cache.prototype.close

exports.Cache = Cache
exports.Resources = Resources
exports.snake = snake
