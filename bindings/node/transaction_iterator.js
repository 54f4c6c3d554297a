'use strict'

const { native } = require('./binding')
const { HIGH_WATER_MARK, READ_AHEAD } = require('./iterator')
const { decodeError, iteratorNotOpen } = require('./errors')

// What tx.iterator(), tx.keys() and tx.values() return: an iterator over what the transaction
// reads at the call, for `for await` and by hand. Its calls are made one after the other.
//
// made resolves to { db, context, iterator, reader }; call(db, fn), assertOpen() and
// release(iterator) are those of the transaction, prefix what keys begin with in a sublevel.
class TransactionIterator {
  #made
  #tx
  #encode // a target of seek, as the engine has it
  #decode // an entry, for the caller
  #left
  #turn = Promise.resolve() // settles with the last call; never rejects
  #failure = null // of a seek, for the next read
  #open = true
  #ended = false // was read to its end, or left by return()

  constructor (tx, made, limit, encode, decode) {
    this.#tx = tx
    this.#made = made
    this.#made.catch(() => {}) // reading throws it
    this.#left = Number.isInteger(limit) && limit >= 0 ? limit : Infinity
    this.#encode = encode
    this.#decode = decode
  }

  async next () {
    const entries = await this.nextv(1)
    return entries.length === 1 ? { done: false, value: entries[0] } :
      { done: true, value: undefined }
  }

  async nextv (size) {
    if (!Number.isInteger(size)) throw new TypeError("The first argument 'size' must be an integer")
    return this.#after(() => this.#read(Math.max(size, 1)))
  }

  async all () {
    const all = []
    try {
      for (let entries; (entries = await this.nextv(READ_AHEAD)).length > 0;) {
        for (const entry of entries) all.push(entry)
      }
    } finally {
      await this.close()
    }
    return all
  }

  // Comes after the reads that were asked for before.
  seek (target, options) {
    const key = this.#encode(target, options)
    this.#after(async () => {
      if (!this.#open) return
      const { reader, iterator } = await this.#made
      reader.reset()
      native.iteratorSeek(iterator, key)
    }).catch((err) => { this.#failure ??= err })
  }

  async close () {
    if (!this.#open) return
    this.#open = false
    return this.#after(async () => {
      const made = await this.#made.catch(() => null)
      if (made !== null) this.#tx.release(made.iterator)
    })
  }

  async return (value) {
    if (this.#open) this.#ended = true
    await this.close()
    return { done: true, value }
  }

  [Symbol.asyncIterator] () {
    return this
  }

  async #read (size) {
    if (this.#ended) return []
    this.#tx.assertOpen()
    if (!this.#open) throw iteratorNotOpen()
    if (this.#failure !== null) throw this.#failure
    const { db, context, iterator, reader } = await this.#made
    size = Math.min(size, this.#left)
    if (size > 0 && reader.empty && !reader.ended) {
      reader.fill(
        await this.#tx.call(
          db, () => native.iteratorNext(context, iterator, Math.min(READ_AHEAD, this.#left),
            HIGH_WATER_MARK)))
      this.#tx.assertOpen()
    }
    const entries = size > 0 ? reader.take(size) : []
    this.#left -= entries.length
    if (entries.length === 0) {
      this.#ended = true
      this.#open = false
      this.#tx.release(iterator)
    }
    return entries.map((entry) => this.#decoded(entry))
  }

  #decoded (entry) {
    try {
      return this.#decode(entry)
    } catch (err) {
      throw decodeError('Iterator could not decode data', err)
    }
  }

  #after (call) {
    const turn = this.#turn.then(call)
    this.#turn = turn.then(() => {}, () => {})
    return turn
  }
}

if (typeof Symbol.asyncDispose === 'symbol') {
  TransactionIterator.prototype[Symbol.asyncDispose] = TransactionIterator.prototype.close
}

exports.TransactionIterator = TransactionIterator
