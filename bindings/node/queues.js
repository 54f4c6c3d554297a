'use strict'

// What a database has to do in this turn of the event loop, to be done at once.

const { native, copyScratch, AS_BUFFER, SYNC, NO_STALL } = require('./binding')
const { BatchWriter, KeyPacker } = require('./writer')

// Work answered at once never leaves the microtask queue; this often it goes
// through the event loop, so that timers and sockets get their turn.
const READS_PER_TURN = 256
const WRITES_PER_TURN = 64

// Keys of one item on libuv's pool. More items run side by side, but each
// wakes a thread and the event loop, which costs as much as a few reads.
const KEYS_PER_ITEM = 50

// After so many reads that memory could not answer, those that come while
// others wait for the pool are not tried in memory first.
const MISSES_IN_A_ROW = 8

// A write of more bytes does not run on the JavaScript thread.
const DIRECT_BYTES = 32 * 1024

// Values of more bytes together are copied apart, so that one of them does not
// keep the memory of all.
const SHARED_BYTES = 64 * 1024

// A job in the microtask queue costs less through it than with queueMicrotask().
const resolved = Promise.resolve()

// Unpacks what native.getMany() made for the flags: an array of values.
function unpackValues (result, count, flags) {
  if ((flags & AS_BUFFER) === 0) return result
  const values = new Array(count)
  const share = result.length <= SHARED_BYTES
  let at = 4 * count
  for (let i = 0; i < count; i++) {
    const length = result.readUInt32LE(4 * i)
    if (length === 0xffffffff) {
      values[i] = undefined
      continue
    }
    const value = result.subarray(at, at + length)
    values[i] = share ? value : Buffer.from(value)
    at += length
  }
  return values
}

function packKeys (keys) {
  const packer = new KeyPacker()
  for (let i = 0; i < keys.length; i++) packer.add(keys[i])
  return packer
}

class ReadQueue {
  #context
  #group = null
  #packer = new KeyPacker() // of the group; native.getMany() copies from it
  #answered = 0
  #misses = 0
  #flush = () => this.flush()

  constructor (context) {
    this.#context = context
  }

  // The value, undefined, or a promise of these.
  get (key, flags, snapshot) {
    if (this.#misses === MISSES_IN_A_ROW && this.#group !== null) return this.#enqueue(key, flags, snapshot)
    const value = native.get(this.#context, snapshot, key, flags)
    if (value === null) {
      if (this.#misses < MISSES_IN_A_ROW) this.#misses++
      return this.#enqueue(key, flags, snapshot)
    }
    this.#misses = 0
    const result = typeof value === 'number' ? copyScratch(value) : value
    if (++this.#answered < READS_PER_TURN) return result
    this.#answered = 0
    return new Promise((resolve) => setImmediate(resolve, result))
  }

  #enqueue (key, flags, snapshot) {
    let group = this.#group
    if (group !== null && (group.flags !== flags || group.snapshot !== snapshot || group.waiting.length === KEYS_PER_ITEM)) {
      this.flush()
      group = null
    }
    if (group === null) {
      group = this.#group = { flags, snapshot, waiting: [] }
      process.nextTick(this.#flush)
    }
    this.#packer.add(key)
    return new Promise((resolve, reject) => {
      group.waiting.push({ resolve, reject })
    })
  }

  // Sends what waits to the pool.
  async flush () {
    const group = this.#group
    if (group === null) return
    this.#group = null
    const { flags, snapshot, waiting } = group
    try {
      const values = unpackValues(await this.#send(snapshot, flags), waiting.length, flags)
      for (let i = 0; i < waiting.length; i++) waiting[i].resolve(values[i])
    } catch (err) {
      for (const { reject } of waiting) reject(err)
    }
  }

  #send (snapshot, flags) {
    const packer = this.#packer
    try {
      return native.getMany(this.#context, snapshot, packer.buffer, packer.length, packer.count, flags)
    } finally {
      packer.clear()
    }
  }
}

// Writes in the order they were asked for. Those of one turn become one batch,
// and those that come while a batch is being written on the pool the next one.
class WriteQueue {
  #context
  #writer = new BatchWriter()
  #spare = new BatchWriter() // or the one being written on the pool
  #sync = false
  #promise = null // of the batch being collected
  #settle = null
  #running = null // the batch on the pool
  #direct = 0
  #flush = () => this.#start()

  constructor (context) {
    this.#context = context
  }

  put (key, value, sync) {
    this.#writer.put(key, value)
    return this.#collected(sync)
  }

  del (key, sync) {
    this.#writer.del(key)
    return this.#collected(sync)
  }

  add (operations, sync) {
    this.#writer.add(operations)
    return this.#collected(sync)
  }

  // Writes what has been collected before a synchronous write overtakes it.
  flushSync () {
    if (this.#promise !== null && this.#running === null) this.#writeDirect(this.#take(), false)
  }

  // Resolves when nothing waits any more.
  async drain () {
    this.#start()
    while (this.#running !== null || this.#promise !== null) {
      await (this.#running ?? this.#promise).catch(() => {})
    }
  }

  #collected (sync) {
    if (sync === true) this.#sync = true
    if (this.#promise === null) {
      this.#promise = new Promise((resolve, reject) => {
        this.#settle = { resolve, reject }
      })
      if (this.#running === null) resolved.then(this.#flush)
    }
    return this.#promise
  }

  #take () {
    const group = { settle: this.#settle, sync: this.#sync }
    this.#promise = this.#settle = null
    this.#sync = false
    return group
  }

  #start () {
    if (this.#promise === null || this.#running !== null) return
    const group = this.#take()
    if (!group.sync && this.#writer.length <= DIRECT_BYTES && this.#writeDirect(group, true)) return
    this.#writePooled(group)
  }

  // false: it would have to wait
  #writeDirect ({ settle, sync }, noStall) {
    const writer = this.#writer
    try {
      const flags = (sync ? SYNC : 0) | (noStall ? NO_STALL : 0)
      if (!native.write(this.#context, writer.finish(), writer.length, flags)) return false
      if (++this.#direct < WRITES_PER_TURN) {
        settle.resolve()
      } else {
        this.#direct = 0
        setImmediate(settle.resolve)
      }
    } catch (err) {
      settle.reject(err)
    }
    writer.clear()
    return true
  }

  async #writePooled ({ settle, sync }) {
    const writer = this.#writer
    try {
      this.#running = native.writeAsync(this.#context, writer.finish(), writer.length, sync ? SYNC : 0)
    } catch (err) {
      writer.clear()
      settle.reject(err)
      return
    }
    this.#writer = this.#spare
    this.#spare = writer
    try {
      await this.#running
      settle.resolve()
    } catch (err) {
      settle.reject(err)
    }
    writer.clear()
    this.#running = null
    this.#start()
  }
}

exports.ReadQueue = ReadQueue
exports.WriteQueue = WriteQueue
exports.packKeys = packKeys
exports.unpackValues = unpackValues
