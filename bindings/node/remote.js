'use strict'

// Databases behind loamd: one node, or the nodes of a cluster.

const { checkNames, invalidArgument } = require('./errors')
const { Link, Failure } = require('./remote_link')
const { RemoteIterator } = require('./remote_iterator')
const wire = require('./remote_wire')

const { OPERATIONS } = wire

const LEARN_EVERY = 2000
const NAMES = ['token', 'tls', 'cluster', 'timeout', 'tryTimeout', 'keyEncoding', 'valueEncoding']
const CALL = ['keyEncoding', 'valueEncoding', 'timeout']
const CHANGE = [...CALL, 'once']
const OPERATION = ['type', 'key', 'value', 'keyEncoding', 'valueEncoding']

// What may be done with a call whose answer did not come: READS may be made again, by another node;
// WRITES must not, unless they were not sent; ONCE may, as the nodes know them again.
const READS = 0
const WRITES = 1
const ONCE = 2

// The bytes of a text, or of a typed array or a DataView. They are copied: the caller may change
// them while a call waits for a connection, a transaction for its end, or an iterator for its next
// chunk.
const bytesOf = (v) => Buffer.from(ArrayBuffer.isView(v)
  ? new Uint8Array(v.buffer, v.byteOffset, v.byteLength) : String(v))

const ENCODINGS = {
  utf8: { encode: bytesOf, decode: (b) => b.toString() },
  buffer: { encode: bytesOf, decode: (b) => Buffer.from(b) },
  view: { encode: bytesOf, decode: (b) => new Uint8Array(b) },
  json: { encode: (v) => Buffer.from(JSON.stringify(v)), decode: (b) => JSON.parse(b.toString()) }
}

function encoding (name) {
  const found = Object.hasOwn(ENCODINGS, name) ? ENCODINGS[name] : undefined
  if (!found) throw invalidArgument(`There is no encoding '${name}': utf8, buffer, view, json`)
  return found
}

// An answer that begins with yes or no, and ends there unless a value is behind a yes.
function said (b, value = false) {
  const f = new wire.Fields(b)
  const yes = f.bool()
  if (f.bad || !f.empty && !(value && yes)) throw wire.malformed('the node')
  return yes
}

function present (what, value) {
  if (value === undefined || value === null) throw invalidArgument(`${what} is ${value}`)
  return value
}

// host:port, an IPv6 address in brackets.
function isAddress (text) {
  const port = /^(?:\[[^[\]\s/]+\]|[^[\]:\s/]+):([0-9]{1,5})$/.exec(text)?.[1]
  return port > 0 && port < 65536
}

function addresses (url) {
  const list = /^loams?:\/\/([^/]+)\/?$/.exec(String(url))?.[1]
  if (!list) throw invalidArgument(`'${url}' is no list of nodes, as loam://a:7070,b:7070 is`)
  const all = list.split(',').map((a) => a.trim())
  const bad = all.find((a) => !isAddress(a))
  if (bad !== undefined) {
    throw invalidArgument(`'${bad}' in '${url}' is not host:port, an IPv6 address in brackets`)
  }
  return [...new Set(all)]
}

const LONGEST = 2 ** 31 - 1 // that timers take

function milliseconds (value, otherwise) {
  if (value === undefined || value === null) return otherwise
  if (typeof value !== 'number' || !(value >= 0)) throw invalidArgument(`A time-out is ${value}`)
  return Math.min(value, LONGEST)
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

const closed = () => new wire.RemoteError('the database was closed',
  { code: 'LEVEL_DATABASE_NOT_OPEN' })

// Reads that a Remote, a view and a snapshot have in common. view() returns the encoded view of a
// call, and may throw.
class Reader {
  constructor (db, view) {
    this.db = db
    this.view = view
  }

  call (op, parts, options) {
    return this.db.do(READS, op, parts, options)
  }

  async get (key, options) {
    const { keys, values } = this.db.encodings(options)
    const b = await this.call(OPERATIONS.get,
      [...this.view(), ...wire.bytes(keys.encode(present('The key', key)))], options)
    return said(b, true) ? values.decode(b.subarray(1)) : undefined
  }

  async has (key, options) {
    const { keys } = this.db.encodings(options)
    const b = await this.call(OPERATIONS.has,
      [...this.view(), ...wire.bytes(keys.encode(present('The key', key)))], options)
    return said(b)
  }

  // Looks up many keys in one state.
  async getMany (list, options) {
    const { keys, values } = this.db.encodings(options)
    const b = await this.call(OPERATIONS.multiGet, [...this.view(), wire.varint(list.length),
      ...list.flatMap((key) => wire.bytes(keys.encode(present('A key', key))))], options)
    const f = new wire.Fields(b)
    const out = list.map(() => f.bool() ? values.decode(f.bytes()) : undefined)
    if (f.bad || !f.empty) throw wire.malformed('the node')
    return out
  }
}

// A fixed state of one node, until close(), or until the connection is lost or a minute went by
// without a read.
class RemoteSnapshot extends Reader {
  #link
  #id
  #users = 1 // the snapshot and its iterators
  #closed = false

  constructor (db, link, id) {
    super(db, () => {
      if (this.#closed) throw invalidArgument('The snapshot was closed')
      return wire.atSnapshot(id)
    })
    this.#link = link
    this.#id = id
  }

  async call (op, parts, options) {
    try {
      return await this.#link.call(op, parts, this.db.timeout(options))
    } catch (err) {
      if (!(err instanceof Failure)) throw err
      // A call that was too large or late leaves the connection, and the snapshot.
      if (err.error.node || !this.#link.isLost) throw err.error
      throw new wire.RemoteError(`the snapshot is gone: ${err.error.message}`,
        { code: 'LEVEL_SNAPSHOT_GONE', cause: err.error })
    }
  }

  iterator (options) {
    this.view() // throws after close()
    this.#users++
    return new RemoteIterator(this.db, options, async () => ({
      scan: (scan) => this.call(OPERATIONS.scan, [...wire.atSnapshot(this.#id), ...wire.scan(scan)],
        options),
      release: () => this.#release()
    }))
  }

  async close () {
    if (this.#closed) return
    this.#closed = true
    this.#release()
  }

  [Symbol.asyncDispose ?? Symbol.for('asyncDispose')] () {
    return this.close()
  }

  #release () {
    if (--this.#users === 0) this.#link.tell(OPERATIONS.release, [wire.varint(this.#id)])
  }
}

// A transaction: it reads a snapshot with its own writes on top.
class RemoteTransaction {
  #snapshot
  #encodings
  #read = new Map() // by the key in latin1: its condition
  #written = new Map() // by the key in latin1: [key, value]

  constructor (snapshot, encodings) {
    this.#snapshot = snapshot
    this.#encodings = encodings
  }

  async get (key, options) {
    const { keys, values } = this.#encodings(options)
    const k = keys.encode(present('The key', key))
    const name = k.toString('latin1')
    const own = this.#written.get(name)
    if (own) return own[1] === undefined ? undefined : values.decode(own[1])
    const v = await this.#snapshot.get(k, { keyEncoding: 'buffer', valueEncoding: 'buffer' })
    this.#read.set(name, wire.condition(k, v))
    return v === undefined ? undefined : values.decode(v)
  }

  put (key, value, options) {
    checkNames(options, CALL)
    const { keys, values } = this.#encodings(options)
    this.#set(keys.encode(present('The key', key)), values.encode(present('The value', value)))
  }

  del (key, options) {
    checkNames(options, CALL)
    this.#set(this.#encodings(options).keys.encode(present('The key', key)), undefined)
  }

  #set (key, value) {
    this.#written.set(key.toString('latin1'), [key, value])
  }

  change (once) {
    return { once, conditions: [...this.#read.values()], operations: [...this.#written.values()] }
  }
}

// A database behind loamd. Reads are linearizable but those of local(). A change that resolved is
// on stable storage of a majority. One that rejected has notApplied: it did not happen, or unknown:
// it may have happened.
class Remote extends Reader {
  #options
  #given
  #addrs
  #links = new Map()
  #home
  #leader
  #asked = 0
  #asking = false
  #closed = false

  constructor (url, options = {}) {
    super(undefined, () => wire.LINEARIZABLE)
    this.db = this
    checkNames(options, NAMES)
    this.#options = { ...options, timeout: milliseconds(options.timeout, 10000),
      tryTimeout: milliseconds(options.tryTimeout, 3000) }
    if (String(url).startsWith('loams:')) this.#options.tls ??= {}
    this.encodings()
    this.#given = addresses(url)
    this.#addrs = this.#given
    this.#home = this.#given[Math.floor(Math.random() * this.#given.length)]
  }

  encodings (options) {
    return {
      keys: encoding(options?.keyEncoding ?? this.#options.keyEncoding ?? 'utf8'),
      values: encoding(options?.valueEncoding ?? this.#options.valueEncoding ?? 'utf8')
    }
  }

  timeout (options) {
    return milliseconds(options?.timeout, this.#options.timeout)
  }

  // ---- Reads ----

  // Reads of what a node has, which may be old: everything that had returned maxLag milliseconds
  // before is in it; 0 and Infinity: any state.
  local (maxLag = 0) {
    if (typeof maxLag !== 'number' || !(maxLag >= 0)) throw invalidArgument(`A lag is ${maxLag}`)
    const view = wire.local(maxLag === Infinity ? 0 : Math.min(maxLag, LONGEST))
    const reader = new Reader(this, () => view)
    reader.iterator = (options) => this.#iterator(reader.view, options)
    return reader
  }

  snapshot (options) {
    return this.#snapshot(wire.LINEARIZABLE, options)
  }

  async #snapshot (view, options) {
    const { result, link } = await this.#on(READS, OPERATIONS.snapshot, view, options)
    const f = new wire.Fields(result)
    const id = f.number()
    if (f.bad) throw wire.malformed(link.addr)
    return new RemoteSnapshot(this, link, id)
  }

  iterator (options) {
    return this.#iterator(this.view, options)
  }

  #iterator (view, options) {
    return new RemoteIterator(this, options, async () => {
      const snapshot = await this.#snapshot(view(), options)
      const inner = snapshot.iterator(options)
      await snapshot.close()
      return inner.source()
    })
  }

  keys (options) {
    return this.iterator({ ...options, only: 'keys' })
  }

  values (options) {
    return this.iterator({ ...options, only: 'values' })
  }

  async status (options) {
    const text = (await this.do(READS, OPERATIONS.status, [], options)).toString()
    try {
      return JSON.parse(text)
    } catch {
      throw wire.malformed('the node')
    }
  }

  // ---- Changes ----

  async put (key, value, options) {
    await this.batch([{ type: 'put', key, value }], options)
  }

  async del (key, options) {
    await this.batch([{ type: 'del', key }], options)
  }

  async batch (list, options) {
    checkNames(options, CHANGE)
    const operations = list.map((operation) => {
      checkNames(operation, OPERATION)
      const { type, key, value, keyEncoding, valueEncoding } = operation
      const { keys, values } = this.encodings({ ...options, ...(keyEncoding && { keyEncoding }),
        ...(valueEncoding && { valueEncoding }) })
      const k = keys.encode(present('A key', key))
      if (type === 'del') return [k, undefined]
      if (type !== 'put') throw invalidArgument(`There is no operation '${type}': put, del`)
      return [k, values.encode(present('A value', value))]
    })
    if (operations.length > 0) await this.#change({ operations }, options)
  }

  // Deletes all keys from start up to, not including, limit.
  async deleteRange (start, limit, options) {
    checkNames(options, CHANGE)
    const { keys } = this.encodings(options)
    await this.#change({ ranges: [[keys.encode(present('start', start)),
      keys.encode(present('limit', limit))]] }, options)
  }

  // Stores a value if the key has the value old; undefined or null is no value.
  async compareAndSwap (key, old, value, options) {
    checkNames(options, CHANGE)
    const { keys, values } = this.encodings(options)
    const k = keys.encode(present('The key', key))
    const encoded = (v) => v === undefined || v === null ? undefined : values.encode(v)
    return this.#change({ conditions: [wire.condition(k, encoded(old))],
      operations: [[k, encoded(value)]] }, options)
  }

  async putIfAbsent (key, value, options) {
    return this.compareAndSwap(key, undefined, present('The value', value), options)
  }

  // Calls fn with a transaction and commits what it wrote. Nothing that it read was changed by
  // others before the commit: else fn is called again. Resolves to what fn gave.
  async transaction (fn, options) {
    checkNames(options, CALL)
    const end = Date.now() + this.timeout(options)
    for (;;) {
      const left = { ...options, timeout: Math.max(end - Date.now(), 1) }
      let snapshot
      try {
        snapshot = await this.snapshot(left)
      } catch (err) {
        throw Object.assign(err, { notApplied: true })
      }
      let result, tx
      try {
        tx = new RemoteTransaction(snapshot, (o) => this.encodings({ ...options, ...o }))
        result = await fn(tx)
      } catch (err) {
        if (err?.code !== 'LEVEL_SNAPSHOT_GONE' || Date.now() >= end) throw err
        continue
      } finally {
        await snapshot.close()
      }
      if (await this.#change(tx.change(), left)) return result
      if (Date.now() >= end) {
        throw new wire.RemoteError('others changed what the transaction read, again and again',
          { code: 'LEVEL_CONFLICT', flags: 1 })
      }
    }
  }

  async #change (change, options) {
    const once = options?.once ?? ''
    if (typeof once !== 'string' || Buffer.from(once).toString() !== once) {
      throw invalidArgument("The option 'once' is no text")
    }
    const b = await this.do(once === '' ? WRITES : ONCE, OPERATIONS.write,
      wire.change({ ...change, once }), options)
    try {
      return said(b)
    } catch (err) {
      throw conclude(WRITES, err, true)
    }
  }

  // ---- The cluster ----

  async addVoter (id, addr, options) {
    await this.#admin(ONCE, OPERATIONS.addVoter, [id, addr], options)
  }

  async addReader (id, addr, options) {
    await this.#admin(ONCE, OPERATIONS.addReader, [id, addr], options)
  }

  async remove (id, options) {
    await this.#admin(ONCE, OPERATIONS.remove, [id], options)
  }

  async transferLeader (id = '', options) {
    await this.#admin(WRITES, OPERATIONS.transfer, [id], options)
  }

  #admin (kind, op, list, options) {
    return this.do(kind, op, list.flatMap((text) => wire.bytes(Buffer.from(text))), options)
  }

  async close () {
    this.#closed = true
    for (const link of this.#links.values()) link.lose(closed())
    this.#links.clear()
  }

  [Symbol.asyncDispose ?? Symbol.for('asyncDispose')] () {
    return this.close()
  }

  // ---- Calls ----

  async do (kind, op, parts, options) {
    return (await this.#on(kind, op, parts, options)).result
  }

  // Makes a call on some node, and tries again where that is safe.
  async #on (kind, op, parts, options) {
    const end = Date.now() + this.timeout(options)
    let addr = kind === READS ? this.#home : this.#leader ?? this.#home
    let doubt = false // a try whose outcome is unknown
    for (let n = 1; ; n++) {
      if (this.#closed) throw conclude(kind, closed(), doubt)
      const link = this.#link(addr)
      try {
        link.ready.then(() => this.#learn(link), () => {})
        const left = end - Date.now()
        const result = await link.call(op, parts,
          kind === WRITES ? left : Math.min(left, this.#options.tryTimeout))
        return { result, link }
      } catch (err) {
        if (!(err instanceof Failure)) throw err
        const { error, sent } = err
        if (kind !== READS && sent && !error.notApplied) doubt = true
        const over = this.#closed || !error.again || doubt && kind === WRITES
        if (error.again) addr = this.#avoid(addr)
        const pause = Math.min(2 ** Math.min(n, 10), 200)
        if (over || Date.now() + pause >= end) throw conclude(kind, error, doubt)
        await sleep(pause)
      }
    }
  }

  #link (addr) {
    let link = this.#links.get(addr)
    if (!link || link.isLost) this.#links.set(addr, link = new Link(addr, this.#options))
    return link
  }

  // Says that a node did not answer, and returns the next one.
  #avoid (addr) {
    if (this.#leader === addr) this.#leader = undefined
    const next = this.#addrs[(this.#addrs.indexOf(addr) + 1) % this.#addrs.length]
    if (this.#home === addr) this.#home = next
    this.#asked = 0
    return next
  }

  // Asks a node for the leader and the members from time to time.
  async #learn (link) {
    if (this.#asking || this.#closed || Date.now() - this.#asked < LEARN_EVERY) return
    this.#asking = true
    this.#asked = Date.now()
    try {
      const status = JSON.parse(
        (await link.call(OPERATIONS.status, [], this.#options.tryTimeout)).toString())
      this.#leader = isAddress(status.leader_addr) ? status.leader_addr : undefined
      this.#addrs = [...new Set([...this.#given,
        ...status.members.map((m) => m.addr).filter(isAddress)])]
    } catch {
    } finally {
      this.#asking = false
    }
  }
}

// The error of a call that is given up.
function conclude (kind, error, doubt) {
  if (kind !== READS && !(doubt ? error.unknown : error.notApplied)) {
    const what = doubt ? 'outcome of the change unknown' : 'change not applied'
    error = new wire.RemoteError(`${what}: ${error.message}`, { code: doubt ? 'LEVEL_UNKNOWN' :
      error.code, flags: doubt ? 2 : 1, cause: error })
  }
  return error
}

exports.Remote = Remote
exports.RemoteError = wire.RemoteError

// Makes a client of some nodes, loam://a:7070,b:7070, or loams:// for TLS. It does not wait for a
// node.
exports.connect = (url, options) => new Remote(url, options)
