'use strict'

const { native } = require('./binding')
const { watched } = require('./jobs')
const { AbortError } = require('./errors')

const HEADER = 12 // of a batch: sequence number and count
const NAMED = 0x80 // a keyspace's number follows the kind
const DEADLINE = 5 // bytes of seconds behind a value that expires
const types = new Map([[0, 'del'], [1, 'put'], [2, 'merge'], [15, 'deleteRange'], [48, 'put']])

// Reads a batch, from behind its header on.
class Reader {
  constructor (batch) {
    this.batch = batch
    this.at = HEADER
  }

  byte () {
    return this.batch[this.at++]
  }

  varint () {
    let n = 0
    for (let shift = 1; ; shift *= 128) {
      const byte = this.byte()
      n += (byte & 0x7f) * shift
      if (byte < 0x80) return n
    }
  }

  skip () {
    const n = this.varint()
    this.at += n
    return n
  }

  bytes () {
    const n = this.skip()
    return this.batch.subarray(this.at - n, this.at)
  }
}

// A batch that was committed, or several ones that share a record of the log.
class Change {
  #names

  constructor (batch, names) {
    this.batch = batch
    this.seq = Number(batch.readBigUInt64LE(0))
    this.next = this.seq + batch.readUInt32LE(8)
    this.#names = names
  }

  // What was done, in its order.
  get operations () {
    const { seq, next } = this
    const reader = new Reader(this.batch)
    const operations = []
    for (let i = seq; i < next; i++) {
      const kind = reader.byte()
      const keyspace = this.#names(kind & NAMED ? reader.varint() : 0)
      const operation = { seq: i, type: types.get(kind & ~NAMED), keyspace, key: reader.bytes() }
      if (operation.type !== 'del') operation.value = reader.bytes()
      if ((kind & ~NAMED) === 48) {
        const end = operation.value.length - DEADLINE
        operation.expires = new Date(operation.value.readUIntLE(end, DEADLINE) * 1000)
        operation.value = operation.value.subarray(0, end)
      }
      operations.push(operation)
    }
    return operations
  }
}

// Calls visit with the numbers of the keyspaces that the operations of a batch name.
function eachKeyspace (batch, visit) {
  const reader = new Reader(batch)
  while (reader.at < batch.length) {
    const kind = reader.byte()
    if (kind & NAMED) visit(reader.varint())
    reader.skip()
    if (types.get(kind & ~NAMED) !== 'del') reader.skip()
  }
}

// A feed of the changes that a database commits. The database closes it when it is closed itself.
class Changes {
  #db
  #context
  #feed
  #ready = [] // fetched, in reverse
  #block // of them, not taken apart yet
  #next // the sequence number behind what was fetched: the engine is ahead during a fetch
  #names = new Map([[0, 'default']])
  // the fetch under way: all calls share it, as blocks that come beside each other may change
  // places
  #fetching
  #waits = false // it waits
  #signal
  #abort = () => { this.close() }
  #closed = false

  constructor (db, context, options) {
    const { from = 0, durable = false } = options ?? {}
    const { signal } = watched(options, 'from', 'durable')
    if (!Number.isSafeInteger(from) || from < 0) {
      throw new TypeError("The option 'from' must be a sequence number")
    }
    if (signal?.aborted) throw new AbortError(signal.reason)
    this.#db = db
    this.#context = context
    this.#feed = native.changesOpen(context, from, durable === true)
    this.#next = native.changesPosition(this.#feed)
    this.#signal = signal
    signal?.addEventListener('abort', this.#abort)
    db.attachResource(this)
  }

  // The sequence number of the next operation: a feed that begins there goes on.
  get position () {
    if (this.#ready.length > 0) return this.#ready.at(-1).seq
    native.changesPosition(this.#feed) // fails when it was closed
    return this.#next
  }

  #nameOf = (number) => {
    if (!this.#names.has(number) && !this.#closed) {
      const name = native.changesKeyspace(this.#feed, number)
      if (name === undefined) return undefined
      this.#names.set(number, name)
    }
    return this.#names.get(number)
  }

  async #fetch (wait) {
    const block = this.#block ??= await native.changesNext(this.#context, this.#feed, wait)
    const fetched = []
    for (let at = 0; at < block.length;) {
      const end = at + 4 + block.readUInt32LE(at)
      const change = new Change(block.subarray(at + 4, end), this.#nameOf)
      eachKeyspace(change.batch, this.#nameOf) // it may be read when the feed is closed
      fetched.push(change)
      at = end
    }
    if (this.#closed) return
    this.#next = native.changesPosition(this.#feed)
    this.#ready = fetched.reverse()
    this.#block = undefined
  }

  #fetchOnce (wait) {
    if (this.#fetching === undefined) {
      this.#waits = wait
      this.#fetching = this.#fetch(wait).finally(() => { this.#fetching = undefined })
    }
    return this.#fetching
  }

  // The next change that is there, or undefined; also while a call of next() waits for one.
  async poll () {
    if (this.#ready.length === 0 && !(this.#fetching !== undefined && this.#waits)) {
      await this.#fetchOnce(false)
    }
    return this.#ready.pop()
  }

  // The next change, for which it waits; undefined when the feed was closed.
  async next () {
    while (this.#ready.length === 0 && !this.#closed) {
      try {
        await this.#fetchOnce(true)
      } catch (error) {
        if (!this.#closed) throw error
      }
    }
    if (this.#signal?.aborted) throw new AbortError(this.#signal.reason)
    return this.#closed ? undefined : this.#ready.pop()
  }

  async close () {
    if (this.#closed) return
    this.#closed = true
    this.#ready = []
    this.#signal?.removeEventListener('abort', this.#abort)
    this.#db.detachResource(this)
    native.changesClose(this.#feed)
  }

  async * [Symbol.asyncIterator] () {
    try {
      for (let change; (change = await this.next()) !== undefined;) yield change
    } finally {
      await this.close()
    }
  }
}

exports.Changes = Changes
