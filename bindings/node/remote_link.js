'use strict'

const net = require('net')
const tls = require('tls')
const wire = require('./remote_wire')

// What a connection may have written and the network not taken: further calls wait.
const HIGH_WATER = 16 << 20

// How many bytes of an answer that is not whole end a silence. Fewer may be answers that a frame
// with a damaged length swallows.
const LONG_PART = 16 << 10

const UNTOLD = 0xffffffff // the number of calls whose answers are of no interest

// Why a call failed. Where sent is false the node saw nothing of it.
class Failure {
  constructor (error, sent) {
    this.error = error
    this.sent = sent
  }
}

// Tells a connection whose other end is gone without a word, which no error says, from one whose
// other end takes its time. A call that had no answer for half of its time calls ask(), and one
// whose time is over calls isLost(). A call with a short time-out alone is no sign: calls that are
// over count together, up to the next answer.
class Silence {
  #patience // how long a connection may be silent, in ms
  #heard = 0 // answers, and parts of long ones
  #part = 0 // bytes that ended no silence
  #since // when the first call was sent that nothing followed; undefined: there is none
  #asked // when ask() returned true since; undefined: it did not

  constructor (patience) {
    this.#patience = patience
  }

  // Bytes came.
  hear (n) {
    if ((this.#part += n) >= LONG_PART) this.end()
  }

  // An answer came.
  end () {
    this.#part = 0
    this.#heard++
    this.#since = this.#asked = undefined
  }

  // Notes that a call is sent now, and returns the mark of it.
  sent (now) {
    this.#since ??= now
    return this.#heard
  }

  // Whether the other end is to be asked something that it answers at once.
  ask (mark, now) {
    if (mark !== this.#heard || this.#asked !== undefined ||
      now - this.#since < this.#patience / 2) return false
    this.#asked = now
    return true
  }

  // Whether the connection is lost, now that the time of a call is over. A process that stood still
  // since it asked has not heard what may be there to read.
  isLost (mark, now) {
    return mark === this.#heard && this.#asked !== undefined &&
      now - this.#since >= this.#patience && now - this.#asked >= this.#patience / 4
  }
}

// One connection to a node, which many calls share. call() rejects with a Failure. A call that is
// too large is not sent, as the node would end the connection, and with it the calls of others.
class Link {
  #options
  #socket
  #pending = new Map() // by number of the call
  #orphans = new Set() // calls for a snapshot that are over
  #number = 0
  #lost // why it takes no calls
  #cutter = new wire.Cutter()
  #greeted
  #welcome = false // whether the node took the greeting
  #timer // of the greeting
  #drained // a promise, while too much was written
  #silence

  constructor (addr, options) {
    this.addr = addr
    this.#options = options
    this.#silence = new Silence(Math.min(options.tryTimeout, options.timeout) / 2)
    this.ready = new Promise((resolve, reject) => {
      this.#greeted = { resolve, reject }
    })
    this.ready.catch(() => {}) // calls tell of it
    this.#connect()
  }

  get isLost () {
    return this.#lost !== undefined
  }

  #connect () {
    const at = this.addr.lastIndexOf(':')
    const host = this.addr.slice(0, at).replace(/^\[(.*)\]$/, '$1')
    const to = { host, port: Number(this.addr.slice(at + 1)) }
    const secure = this.#options.tls
    const socket = secure
      ? tls.connect({ ...(net.isIP(host) ? {} : { servername: host }), ...secure, ...to })
      : net.connect(to)
    this.#socket = socket
    socket.setNoDelay(true)
    this.#timer = setTimeout(() => this.lose(new Error('no greeting in time')),
      this.#options.tryTimeout)
    socket.on(secure ? 'secureConnect' : 'connect', () => socket.write(
      wire.greeting(this.#options)))
    socket.on('data', (chunk) => {
      this.#silence.hear(chunk.length)
      try {
        this.#cutter.add(chunk, (body) => {
          this.#silence.end()
          this.#take(body)
        })
      } catch (err) {
        this.lose(err)
      }
    })
    socket.on('error', (err) => this.lose(err))
    socket.on('close', () => this.lose())
  }

  #take (body) {
    const { number, result, error, text } = wire.answer(this.addr, body)
    if (number === 0) { // of the connection
      // Behind the greeting no call has its error, as after a frame that arrived damaged: each one
      // fails as after the loss of the connection.
      if (error && this.#welcome) return this.lose(new Error(`the node ended it: ${text}`))
      if (error) return this.lose(error)
      this.#welcome = true
      clearTimeout(this.#timer)
      this.#greeted.resolve()
      this.#rest()
      return
    }
    const p = this.#pending.get(number)
    if (p === undefined) {
      if (this.#orphans.delete(number) && !error) this.#release(result)
      return
    }
    this.#pending.delete(number)
    this.#rest()
    if (error) p.reject(new Failure(error, true))
    else p.resolve(result)
  }

  // A connection without calls keeps no process alive.
  #rest () {
    if (this.#pending.size === 0) this.#socket.unref()
    else this.#socket.ref()
  }

  // Fails the calls that wait, and the connection for good.
  lose (cause) {
    if (this.#lost !== undefined) return
    this.#lost = cause instanceof wire.RemoteError ? cause : wire.lost(this.addr, cause)
    clearTimeout(this.#timer)
    this.#socket?.destroy()
    this.#greeted.reject(this.#lost)
    for (const p of this.#pending.values()) p.reject(new Failure(this.#lost, true))
    this.#pending.clear()
  }

  async call (op, parts, timeout) {
    const begun = Date.now()
    const large = wire.tooLarge(parts)
    if (large) throw new Failure(large, false)
    await this.#within(this.ready, Math.min(timeout, this.#options.tryTimeout))
    while (this.#drained) await this.#within(this.#drained, timeout - (Date.now() - begun))
    if (this.#lost) throw new Failure(this.#lost, false)
    do this.#number = (this.#number + 1) % UNTOLD
    while (this.#number === 0 || this.#pending.has(this.#number) ||
      this.#orphans.has(this.#number))
    const number = this.#number
    const left = timeout - (Date.now() - begun)
    return new Promise((resolve, reject) => {
      const mark = this.#silence.sent(performance.now())
      let timer = setTimeout(() => {
        this.#ask(mark)
        // What came while the process was busy is read before the time is over.
        timer = setTimeout(() => setImmediate(over), left / 2)
      }, left / 2)
      const settle = (f) => (value) => { clearTimeout(timer); f(value) }
      const waiting = { resolve: settle(resolve), reject: settle(reject) }
      const over = () => {
        if (this.#pending.get(number) !== waiting) return
        this.#pending.delete(number)
        if (op === wire.OPERATIONS.snapshot) this.#orphans.add(number)
        this.#rest()
        const silent = this.#silence.isLost(mark, performance.now())
        if (silent) this.lose(new Error('the node says nothing'))
        reject(new Failure(silent ? this.#lost : timedOut(this.addr), true))
      }
      this.#pending.set(number, waiting)
      this.#rest()
      this.#write(wire.call(number, left, op, parts))
    })
  }

  // Releases the snapshot of an answer that nobody waits for, as a connection may have few.
  #release (snapshot) {
    const f = new wire.Fields(snapshot)
    const id = f.number()
    if (!f.bad) this.tell(wire.OPERATIONS.release, [wire.varint(id)])
  }

  // Makes a node say something that was silent since a call was sent: every node answers a call for
  // its status at once.
  #ask (mark) {
    if (this.#silence.ask(mark, performance.now())) this.tell(wire.OPERATIONS.status, [])
  }

  // Makes a call whose answer is of no interest.
  tell (op, parts) {
    if (!this.#lost) this.#write(wire.call(UNTOLD, 1000, op, parts))
  }

  #write (frame) {
    this.#socket.write(frame)
    if (this.#socket.writableLength < HIGH_WATER || this.#drained) return
    this.#drained = new Promise((resolve) => {
      const go = () => {
        this.#socket.off('drain', go).off('close', go)
        this.#drained = undefined
        resolve()
      }
      this.#socket.once('drain', go).once('close', go)
    })
  }

  // Waits for a promise before a call is sent.
  async #within (promise, ms) {
    let timer
    try {
      await Promise.race([promise, new Promise((resolve, reject) => {
        timer = setTimeout(() => reject(timedOut(this.addr)), Math.max(ms, 1))
      })])
    } catch (err) {
      throw new Failure(err, false)
    } finally {
      clearTimeout(timer)
    }
  }
}

function timedOut (addr) {
  return new wire.RemoteError(`${addr}: no answer in time`, { code: 'LEVEL_UNAVAILABLE' })
}

exports.Link = Link
exports.Silence = Silence
exports.Failure = Failure
