'use strict'

// What a database has to do in this turn of the event loop, to be done at once.

const { native, copyScratch, copyBytes, AS_BUFFER, SYNC, NO_STALL } = require('./binding')
const { BatchWriter, KeyPacker } = require('./writer')
const { isError } = require('./errors')

// Work answered at once never leaves the microtask queue; this often it goes
// through the event loop, so that timers and sockets get their turn.
const READS_PER_TURN = 256
const WRITES_PER_TURN = 64

// Keys of one item on libuv's pool. More items run side by side, but each
// wakes a thread and the event loop, which costs as much as a few reads.
const KEYS_PER_ITEM = 50

// After this many reads that memory could not answer, reads that arrive while others wait for the
// pool skip the try in memory.
const MISSES_IN_A_ROW = 8

// A write of more bytes does not run on the JavaScript thread.
const DIRECT_BYTES = 32 * 1024

// A group of writes takes no further one at this size, and a write of so many
// bytes (in characters) is a group of its own: far below what a batch can hold.
const GROUP_BYTES = 16 * 1024 * 1024
const LARGE_WRITE = 1024 * 1024

// As in src/reads.c: in place of a length.
const LENGTH_NONE = 0xffffffff
const LENGTH_OWN = 0xfffffffe

// A job in the microtask queue costs less through it than with queueMicrotask().
const resolved = Promise.resolve()

// Unpacks what native.getMany() made for the flags: an array of values,
// undefined, and Errors for values that could not be read.
function unpackValues (result, count, flags) {
  if ((flags & AS_BUFFER) === 0) {
    if (result.length > count) result.length = count
    return result
  }
  const values = new Array(count)
  const packed = result[0]
  let at = 4 * count
  let own = 1
  for (let i = 0; i < count; i++) {
    const length = packed.readUInt32LE(4 * i)
    if (length === LENGTH_NONE) {
      values[i] = undefined
    } else if (length === LENGTH_OWN) {
      values[i] = result[own++]
    } else {
      values[i] = copyBytes(packed, at, length)
      at += length
    }
  }
  return values
}

// Whether there may be Errors in what native.getMany() made.
function hasErrors (result, count, flags) {
  return result.length > ((flags & AS_BUFFER) === 0 ? count : 1)
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
    if (this.#misses === MISSES_IN_A_ROW && this.#group !== null) {
      return this.#enqueue(key, flags, snapshot)
    }
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

  // Sends what waits to the pool, which reads the state of this moment. Called
  // before every write: reads do not see what was written after their call.
  flush () {
    const group = this.#group
    if (group === null) return
    this.#group = null
    this.#answer(group)
  }

  #enqueue (key, flags, snapshot) {
    let group = this.#group
    if (group !== null && (group.flags !== flags || group.snapshot !== snapshot ||
      group.waiting.length === KEYS_PER_ITEM)) {
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

  async #answer ({ flags, snapshot, waiting }) {
    try {
      const values = unpackValues(await this.#send(snapshot, flags), waiting.length, flags)
      for (let i = 0; i < waiting.length; i++) {
        if (isError(values[i])) waiting[i].reject(values[i])
        else waiting[i].resolve(values[i])
      }
    } catch (err) {
      for (const { reject } of waiting) reject(err)
    }
  }

  #send (snapshot, flags) {
    const packer = this.#packer
    try {
      return native.getMany(this.#context, snapshot, packer.buffer, packer.length, packer.count,
        flags)
    } finally {
      packer.clear()
    }
  }
}

// What a WriteQueue has to do next: the writes of a writer, or another function
// that begins something and returns its promise.
class Step {
  constructor (writer, begin) {
    this.writer = writer
    this.begin = begin
    this.sync = false
    this.done = null // once it began on the pool: settled, and the queue goes on; never rejects
    this.after = null // what settles then: writes that took effect behind it in the meantime
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }
}

// Writes in the order of the calls. Those of one turn become one batch, and
// those that come while something is under way on the pool the next one.
class WriteQueue {
  #context
  #reads
  #group = null // the step that collects writes
  #waiting = [] // steps before it that have not begun
  #running = 0 // steps that began on the pool and are not settled
  #last = null // of them
  #spares = [] // writers
  #direct = 0
  #numberOf
  #flush = () => this.#start()

  // numberOf gives the number of a keyspace that an operation names.
  constructor (context, reads, numberOf) {
    this.#context = context
    this.#reads = reads
    this.#numberOf = numberOf
  }

  put (key, value, sync, ttl) {
    const group = this.#room(key.length + value.length)
    if (ttl === undefined || ttl === null) group.writer.put(key, value)
    else group.writer.putTtl(key, value, ttl)
    return this.#collected(group, sync)
  }

  merge (key, operand, sync) {
    const group = this.#room(key.length + operand.length)
    group.writer.merge(key, operand)
    return this.#collected(group, sync)
  }

  del (key, sync) {
    const group = this.#room(key.length)
    group.writer.del(key)
    return this.#collected(group, sync)
  }

  add (operations, sync) {
    let group = this.#room(0)
    const { length, count } = group.writer
    group.writer.add(operations, this.#numberOf)
    if (group.writer.length > GROUP_BYTES && count > 0) {
      const rest = group.writer.split(length, count)
      this.#seal()
      group = this.#group = new Step(rest, null)
    }
    return this.#collected(group, sync)
  }

  // Comes after all earlier writes and before all later ones: begin() starts it
  // on the pool.
  run (begin) {
    this.#seal()
    const step = new Step(null, begin)
    this.#waiting.push(step)
    if (this.#running === 0) resolved.then(this.#flush)
    return step.promise
  }

  // Everything has taken effect that was asked for before. Waits for the pool
  // or does its work, as a synchronous write would overtake it otherwise.
  finish () {
    this.#reads.flush()
    if (this.#running === 0 && this.#group === null && this.#waiting.length === 0) return
    if (this.#running > 0) native.finishWrite(this.#context)
    for (let step; (step = this.#take()) !== null;) {
      if (step.writer !== null) {
        this.#writeDirect(step, step.sync ? SYNC : 0)
      } else {
        this.#writePooled(step)
        native.finishWrite(this.#context)
      }
    }
  }

  // Resolves when everything has been settled that was asked for before.
  async settled () {
    const step = this.#group ?? this.#waiting.at(-1)
    if (step !== undefined) await step.promise.catch(() => {})
    else if (this.#running > 0) await this.#last.done
  }

  // Resolves when nothing waits any more.
  async drain () {
    this.#start()
    while (this.#running > 0 || this.#group !== null || this.#waiting.length > 0) {
      await this.settled()
    }
  }

  // The group for a write of about so many bytes.
  #room (size) {
    let group = this.#group
    if (group !== null && size > LARGE_WRITE && group.writer.count > 0) {
      this.#seal()
      group = null
    }
    if (group === null) {
      group = this.#group = new Step(this.#spares.pop() ?? new BatchWriter(), null)
      if (this.#running === 0) resolved.then(this.#flush)
    }
    return group
  }

  #collected (group, sync) {
    if (sync === true) group.sync = true
    if (group.writer.length > GROUP_BYTES) this.#seal()
    return group.promise
  }

  // The group takes no further writes.
  #seal () {
    if (this.#group === null) return
    this.#waiting.push(this.#group)
    this.#group = null
  }

  #take () {
    if (this.#waiting.length > 0) return this.#waiting.shift()
    const group = this.#group
    this.#group = null
    return group
  }

  #start () {
    while (this.#running === 0) {
      const step = this.#take()
      if (step === null) return
      const small = step.writer !== null && !step.sync && step.writer.length <= DIRECT_BYTES
      if (!small || !this.#writeDirect(step, NO_STALL)) this.#writePooled(step)
    }
  }

  // false: it would have to wait
  #writeDirect (step, flags) {
    const { writer } = step
    let failure = null
    this.#reads.flush()
    try {
      if (writer.count > 0 && !native.write(this.#context, writer.finish(), writer.length, flags)) {
        return false
      }
    } catch (err) {
      failure = err
    }
    this.#recycle(writer)
    // in the order of the calls
    if (this.#running > 0) (this.#last.after ??= []).push([step, failure])
    else this.#settle(step, failure)
    return true
  }

  #settle ({ resolve, reject }, failure) {
    if (failure !== null) {
      reject(failure)
    } else if (++this.#direct < WRITES_PER_TURN) {
      resolve()
    } else {
      this.#direct = 0
      setImmediate(resolve)
    }
  }

  #writePooled (step) {
    this.#reads.flush()
    this.#running++
    this.#last = step
    step.done = this.#begin(step).then(step.resolve, step.reject).then(() => {
      if (step.writer !== null) this.#recycle(step.writer)
      if (step.after !== null) for (const [next, failure] of step.after) this.#settle(next, failure)
      this.#running--
      this.#start()
    })
  }

  // The writer stays as it is until the promise is settled.
  async #begin ({ writer, begin, sync }) {
    if (writer === null) return begin()
    return native.writeAsync(this.#context, writer.finish(), writer.length, sync ? SYNC : 0)
  }

  #recycle (writer) {
    writer.clear()
    if (this.#spares.length < 2) this.#spares.push(writer)
  }
}

exports.ReadQueue = ReadQueue
exports.WriteQueue = WriteQueue
exports.packKeys = packKeys
exports.unpackValues = unpackValues
exports.hasErrors = hasErrors
