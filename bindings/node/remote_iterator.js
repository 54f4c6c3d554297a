'use strict'

const { checkNames, invalidArgument } = require('./errors')
const wire = require('./remote_wire')

// The first chunk has FIRST bytes of keys and values, each further one twice as much, up to LAST.
const FIRST = 4 << 10
const LAST = 256 << 10

const NAMES = ['gt', 'gte', 'lt', 'lte', 'reverse', 'limit', 'only', 'keyEncoding', 'valueEncoding',
  'timeout']

const behind = (key) => Buffer.concat([key, Buffer.alloc(1)])

// Walks over one state by chunks, of which it has one. It is an async iterator.
class RemoteIterator {
  #open // makes the source
  #source
  #encodings
  #only
  #backward
  #lower
  #upper
  #left
  #size = FIRST
  #entries = []
  #at = 0
  #more = true
  #closed = false
  #busy = false

  constructor (db, options, open) {
    checkNames(options, NAMES)
    const { gt, gte, lt, lte, reverse = false, limit, only } = options ?? {}
    this.#encodings = db.encodings(options)
    const bound = (inclusive, exclusive, after) => {
      if (inclusive != null) return [this.#encodings.keys.encode(inclusive), after]
      return exclusive != null ? [this.#encodings.keys.encode(exclusive), !after] : undefined
    }
    // Both bounds are inclusive below and exclusive above: one behind a key is the key and a zero.
    const place = (b) => b && (b[1] ? behind(b[0]) : b[0])
    this.#lower = place(bound(gte, gt, false))
    this.#upper = place(bound(lte, lt, true))
    this.#left = Number.isInteger(limit) && limit >= 0 ? limit : Infinity
    this.#backward = reverse
    this.#only = only
    this.#open = open
  }

  // Resolves to [key, value], or the key or value alone; undefined: there are no more.
  async next () {
    const [entry] = await this.nextv(1)
    return entry
  }

  // Resolves to at most n entries; none: there are no more.
  async nextv (n) {
    return this.#alone(async () => {
      const out = []
      while (out.length < n && this.#left > 0 && await this.#fill()) {
        out.push(this.#show(this.#entries[this.#at++]))
        this.#left--
      }
      return out
    })
  }

  // Resolves to all further entries, and closes the iterator.
  async all () {
    const out = []
    try {
      for (let some; (some = await this.nextv(1000)).length > 0;) out.push(...some)
    } finally {
      await this.close()
    }
    return out
  }

  // Goes to the first entry at or behind target, in the direction of the iterator.
  seek (target) {
    if (this.#closed || this.#busy) throw invalidArgument('The iterator is closed or busy')
    const key = this.#encodings.keys.encode(target)
    this.#reset()
    const at = this.#backward ? behind(key) : key
    const bound = this.#backward ? this.#upper : this.#lower
    const nearer = bound && (Buffer.compare(at, bound) < 0) === !this.#backward ? bound : at
    if (this.#backward) this.#place = { upper: nearer, lower: this.#lower }
    else this.#place = { lower: nearer, upper: this.#upper }
  }

  #place // where the next chunk begins; undefined: at the bounds

  #reset () {
    this.#entries = []
    this.#at = 0
    this.#more = true
    this.#size = FIRST
  }

  #show ([key, value]) {
    const { keys, values } = this.#encodings
    if (this.#only === 'keys') return keys.decode(key)
    if (this.#only === 'values') return values.decode(value)
    return [keys.decode(key), values.decode(value)]
  }

  // Has the entry at #at, and reports whether there is one.
  async #fill () {
    if (this.#at < this.#entries.length) return true
    if (!this.#more) return false
    const { lower, upper } = this.#place ?? { lower: this.#lower, upper: this.#upper }
    if (lower && upper && Buffer.compare(lower, upper) >= 0) return (this.#more = false)
    const source = await this.source()
    const f = new wire.Fields(await source.scan({ keysOnly: this.#only === 'keys',
      backward: this.#backward, lower, upper, bytes: this.#size,
      entries: Number.isFinite(this.#left) ? this.#left : 0 }))
    const more = f.bool()
    f.number() // no snapshot is kept
    const entries = []
    while (!f.empty && !f.bad) {
      entries.push([f.bytes(), this.#only === 'keys' ? undefined : f.bytes()])
    }
    const last = entries.at(-1)?.[0]
    if (f.bad || more && !last) throw wire.malformed('the node')
    this.#more = more
    this.#entries = entries
    this.#at = 0
    if (last) {
      this.#place = this.#backward ? { lower, upper: last } : { lower: behind(last), upper }
    }
    this.#size = Math.min(this.#size * 2, LAST)
    return this.#entries.length > 0
  }

  // The state that is read, which the first read makes.
  async source () {
    this.#source ??= this.#open()
    return this.#source
  }

  async #alone (f) {
    if (this.#closed) throw invalidArgument('The iterator was closed')
    if (this.#busy) throw invalidArgument('The iterator is busy: await its last call')
    this.#busy = true
    try {
      return await f()
    } finally {
      this.#busy = false
    }
  }

  async close () {
    if (this.#closed) return
    this.#closed = true
    this.#entries = []
    const source = await this.#source?.catch(() => {})
    source?.release()
  }

  async * [Symbol.asyncIterator] () {
    try {
      for (let some; (some = await this.nextv(100)).length > 0;) yield * some
    } finally {
      await this.close()
    }
  }

  [Symbol.asyncDispose ?? Symbol.for('asyncDispose')] () {
    return this.close()
  }
}

exports.RemoteIterator = RemoteIterator
