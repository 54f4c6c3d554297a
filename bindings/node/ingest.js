'use strict'

const path = require('path')
const { native, engineOptions } = require('./binding')
const { enginePairs } = require('./options')
const { BatchWriter, seconds } = require('./writer')
const { invalidArgument, checkNames, AbortError } = require('./errors')

// Bytes of entries that a load takes at once.
const CHUNK = 256 * 1024

const kOpening = Symbol('opening')

function location (value) {
  if (typeof value !== 'string' || value === '') {
    throw new TypeError("The argument 'location' must be a non-empty string")
  }
  return path.resolve(value)
}

function data (name, value) {
  if (typeof value === 'string' || value instanceof Uint8Array) return value
  throw invalidArgument(`The argument '${name}' must be a string or a Uint8Array`)
}

// Writes a table outside of a database. Made by TableWriter.create().
class TableWriter {
  #native
  #location
  #ended = null

  constructor (token) {
    if (token !== kOpening) throw new TypeError('Use TableWriter.create()')
  }

  static async create (at, options) {
    const resolved = location(at)
    await engineOptions() // loads the engine
    const writer = new TableWriter(kOpening)
    writer.#native = await native.tableCreate(resolved, await enginePairs(options))
    writer.#location = resolved
    return writer
  }

  get location () {
    return this.#location
  }

  // About how many bytes the file would have if the table were finished now.
  get size () {
    return native.tableSize(this.#native)
  }

  put (key, value, options) {
    checkNames(options, ['ttl'])
    const ttl = options?.ttl ?? undefined
    native.tableWrite(this.#native, data('key', key), data('value', value), ttl === undefined ? 0 :
      seconds(ttl), false)
  }

  del (key) {
    native.tableWrite(this.#native, data('key', key), undefined, 0, false)
  }

  deleteRange (start, limit) {
    native.tableWrite(this.#native, data('start', start), data('limit', limit), 0, true)
  }

  async finish () {
    this.#ended = native.tableEnd(this.#native, true)
    return this.#ended
  }

  // Gives up a table that was not finished. Closing twice is harmless.
  async close () {
    if (this.#ended === null) this.#ended = native.tableEnd(this.#native, false)
    await this.#ended.catch(() => {}) // finish() tells it
  }
}

if (typeof Symbol.asyncDispose === 'symbol') {
  TableWriter.prototype[Symbol.asyncDispose] = TableWriter.prototype.close
}

// The option of bulkLoad(): a number of bytes.
function bytes (memory) {
  if (memory == null) return 0
  if (!Number.isSafeInteger(memory) || memory < 0) {
    throw invalidArgument("The option 'memory' must be a number of bytes")
  }
  return memory
}

// The paths of ingest().
exports.tables = function (locations) {
  if (locations === null || typeof locations !== 'object' ||
    typeof locations[Symbol.iterator] !== 'function') throw new TypeError(
    "The argument 'locations' must be an array")
  return Array.from(locations, location)
}

// Entries up to an abort, which does not wait for the next one.
async function * until (entries, signal) {
  let abort
  const aborted = new Promise((resolve, reject) => {
    abort = () => reject(new AbortError(signal.reason))
  })
  aborted.catch(() => {}) // it may come when nobody waits
  const iterator = entries[Symbol.asyncIterator]()
  signal.addEventListener('abort', abort)
  let ended = false
  try {
    if (signal.aborted) abort()
    for (let result; !(result = await Promise.race([iterator.next(), aborted])).done;) {
      yield result.value
    }
    ended = true
  } catch (err) {
    ended = !signal.aborted // one that throws has ended
    throw err
  } finally {
    signal.removeEventListener('abort', abort)
    if (!ended) Promise.resolve(iterator.return?.()).catch(() => {}) // it may wait for ever itself
  }
}

// Begins a load of entries, which encode turns into pairs of bytes or text; resolves to [job,
// load].
exports.bulkLoad = async function (context, entries, encode, memory, signal) {
  const load = native.bulkLoadBegin(context, bytes(memory))
  try {
    let batch = new BatchWriter()
    const add = () => native.bulkLoadAdd(context, load, batch.finish(), batch.length)
    const all = signal !== undefined && typeof entries[Symbol.asyncIterator] === 'function' ?
      until(entries, signal) : entries
    for await (const entry of all) {
      batch.put(...encode(entry))
      if (batch.length < CHUNK) continue
      await add()
      batch = new BatchWriter()
      if (signal?.aborted) throw new AbortError(signal.reason)
    }
    await add()
    if (signal?.aborted) throw new AbortError(signal.reason)
    return [native.bulkLoadFinish(load), load]
  } catch (err) {
    await native.bulkLoadClose(load)
    throw err
  }
}

exports.TableWriter = TableWriter
