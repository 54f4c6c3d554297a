'use strict'

// Runs testdata/conformance/script with the asynchronous and with the synchronous
// methods, on both formats, and compares with what every language must print.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { PassThrough } = require('stream')
const { Backups, Loam, TableWriter } = require('..')

const directory = path.join(__dirname, '..', '..', '..', 'testdata', 'conformance')
const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-conformance-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

const encodings = { keyEncoding: 'buffer', valueEncoding: 'buffer' }
const end = Buffer.alloc(16, 0xff)

const decode = (text) =>
  Buffer.from(
    text === '%' ? '' : text.replace(/%(..)/g, (_, hex) => String.fromCharCode(parseInt(hex, 16))),
    'latin1')
const encode = (bytes) => bytes.length === 0 ? '%' : bytes.toString('latin1').replace(
  /[^\w.-]/g, (c) => '%' + c.charCodeAt(0).toString(16).padStart(2, '0'))
const valueLine = (value) => value === undefined ? 'none' : `= ${encode(value)}`
const entryLine = ([key, value]) => `${encode(key)} ${encode(value)}`

// The first key that does not begin with the prefix; undefined: there is none.
function prefixEnd (prefix) {
  for (let i = prefix.length - 1; i >= 0; i--) {
    if (prefix[i] < 0xff) {
      return Buffer.concat([prefix.subarray(0, i), Buffer.from([prefix[i] + 1])])
    }
  }
}

// The options that words like lower=K stand for.
function rangeOf (words) {
  const options = {}
  for (const word of words) {
    const [name, value] = word.split('=')
    if (name === 'lower') options.gte = decode(value)
    else if (name === 'upper') options.lt = decode(value)
    else if (name === 'prefix') Object.assign(
      options, { gte: decode(value), lt: prefixEnd(decode(value)) })
    else if (name === 'limit') options.limit = Number(value)
    else if (name === 'reverse') options.reverse = true
  }
  if (options.lt === undefined) delete options.lt
  return options
}

class Conformer {
  constructor (db, sync) {
    this.root = db
    this.db = db // the keyspace that operations work in
    this.sync = sync
    this.snapshots = new Map()
    this.transactions = new Map()
    this.savepoints = new Map()
  }

  async run (operation, args) {
    const result = await this[operation](...args)
    return result === undefined ? ['ok'] : [].concat(result)
  }

  put (key, value) {
    if (!this.sync) return this.db.put(decode(key), decode(value))
    this.db.putSync(decode(key), decode(value))
  }

  del (key) {
    if (!this.sync) return this.db.del(decode(key))
    this.db.delSync(decode(key))
  }

  async #keyspace (name, mergeOperator) {
    if (name === 'default') return this.root
    const keyspace = this.root.keyspace(name, { ...encodings, mergeOperator })
    await keyspace.open()
    return keyspace
  }

  async use (name, operator) {
    this.db = await this.#keyspace(name, operator)
  }

  merge (key, operand) {
    if (!this.sync) return this.db.merge(decode(key), decode(operand))
    this.db.mergeSync(decode(key), decode(operand))
  }

  expire (key, value, ttl) {
    if (!this.sync) return this.db.put(decode(key), decode(value), { ttl: Number(ttl) })
    this.db.putSync(decode(key), decode(value), { ttl: Number(ttl) })
  }

  async left (key) {
    const left = await this.db.ttl(decode(key))
    return left === undefined ? 'none' : left === Infinity ? 'never' : 'expires'
  }

  async gone (key) {
    while (await this.db.has(decode(key))) await new Promise((resolve) => setTimeout(resolve, 10))
  }

  async cas (key, old, value) {
    const [before, after] = [old, value].map((word) => word === '-' ? null : decode(word))
    return String(await this.db.compareAndSwap(decode(key), before, after))
  }

  async putnew (key, value) {
    return String(await this.db.putIfAbsent(decode(key), decode(value)))
  }

  // The function of the transaction waits for its end.
  begin (name, ...flags) {
    return new Promise((resolve, reject) => {
      const transaction = {}
      const ended = new Promise(
        (resolve, reject) => Object.assign(transaction, { commit: resolve, rollback: reject }))
      const options = { retries: 0, ...Object.fromEntries(flags.map((flag) => [flag, true])) }
      transaction.done = this.root.transaction((tx) => {
        transaction.tx = tx
        this.transactions.set(name, transaction)
        resolve()
        return ended
      }, options)
      transaction.done.catch(reject) // nobody hears of it once it has begun
    })
  }

  async #orConflict (promise) {
    try {
      return await promise
    } catch (error) {
      if (error.code !== 'LEVEL_CONFLICT') throw error
      return 'conflict'
    }
  }

  async commit (name) {
    const { commit, done } = this.transactions.get(name)
    commit()
    return this.#orConflict(done)
  }

  async rollback (name) {
    const { rollback, done } = this.transactions.get(name)
    const cause = new Error('rolled back')
    rollback(cause)
    await done.catch((error) => { if (error !== cause) throw error })
  }

  async tx (name, operation, ...words) {
    const { tx } = this.transactions.get(name)
    let options = {}
    if (operation === 'in') {
      options = { ...encodings, keyspace: await this.#keyspace(words.shift()) }
      operation = words.shift()
    }
    const [key, value] = words.map((word) => decode(word))
    switch (operation) {
      case 'get': return valueLine(await tx.get(key, options))
      case 'update': return this.#orConflict(tx.getForUpdate(key, options).then(valueLine))
      case 'put': return this.#orConflict(tx.put(key, value, options))
      case 'del': return this.#orConflict(tx.del(key, options))
      case 'save': return void this.savepoints.set(words[0], await tx.savepoint())
      case 'back': return tx.rollbackTo(this.savepoints.get(words[0]))
    }
    const entries = []
    for await (const entry of tx.iterator({ ...options, ...rangeOf(words) })) entries.push(
      entryLine(entry))
    return [...entries, 'end']
  }

  drop (name) {
    return this.root.dropKeyspace(name)
  }

  spaces () {
    return this.root.keyspaces().join(' ')
  }

  async delrange (start, limit) {
    try {
      await this.db.deleteRange(decode(start), decode(limit))
    } catch (error) {
      if (error.code !== 'LEVEL_NEEDS_NATIVE') throw error
      await this.db.clear({ gte: decode(start), lt: decode(limit) })
    }
  }

  async batch (...args) {
    const operations = []
    let keyspace
    while (args.length > 0) {
      const type = args.shift()
      if (type === 'in') {
        keyspace = await this.#keyspace(args.shift())
        continue
      }
      const operation = { type, key: decode(args.shift()), keyspace }
      if (type === 'put' || type === 'merge') operation.value = decode(args.shift())
      if (type === 'expire') {
        Object.assign(
          operation, { type: 'put', value: decode(args.shift()), ttl: Number(args.shift()) })
      }
      operations.push(operation)
    }
    if (!this.sync && !operations.some(({ type }) => type === 'merge')) {
      return this.db.batch(operations)
    }
    this.db.batchSync(operations)
  }

  async get (key, at) {
    const options = { snapshot: at === undefined ? undefined : this.snapshots.get(at.slice(1)) }
    return valueLine(this.sync ? this.db.getSync(decode(key), options) : await this.db.get(
      decode(key), options))
  }

  async follow (key) {
    const follower = await Loam.follow(this.root.location, encodings)
    await follower.catchUp()
    const line = valueLine(await follower.get(decode(key)))
    await follower.close()
    return line
  }

  async has (key) {
    return String(await this.db.has(decode(key)))
  }

  async multiget (...keys) {
    return (await this.db.getMany(keys.map(decode))).map(valueLine)
  }

  snapshot (name) {
    this.snapshots.set(name, this.db.snapshot())
  }

  release (name) {
    return this.snapshots.get(name).close()
  }

  async entries (options) {
    return this.sync ? this.db.iteratorSync(options).all() : this.db.iterator(options).all()
  }

  async iter (...args) {
    const options = rangeOf(args)
    const at = args.find((arg) => arg.startsWith('@'))
    if (at !== undefined) options.snapshot = this.snapshots.get(at.slice(1))
    return [...(await this.entries(options)).map(entryLine), 'end']
  }

  async seek (key) {
    const [entry] = await this.entries({ gte: decode(key), limit: 1 })
    return entry === undefined ? 'none' : entryLine(entry)
  }

  async seeklt (key) {
    const [entry] = await this.entries({ lt: decode(key), limit: 1, reverse: true })
    return entry === undefined ? 'none' : entryLine(entry)
  }

  // Compaction begins with it.
  flush () {
    return this.compact()
  }

  compact () {
    return this.db.compactRange(Buffer.alloc(0), end)
  }

  verify () {
    return this.db.verify()
  }

  async reopen () {
    await this.root.close()
    await this.root.open()
    this.db = this.root
  }

  async listen () {
    this.feed = this.root.changes()
    await this.changes()
    return 'end'
  }

  async changes () {
    const lines = []
    const names = { del: 'delete', deleteRange: 'delete_range' }
    for (let change; (change = await this.feed.poll()) !== undefined;) {
      for (const { type, keyspace, key, value, expires } of change.operations) {
        lines.push(
          `${names[type] ?? type} ${keyspace ?? '-'} ${encode(key)} ` +
          `${encode(value ?? Buffer.alloc(0))}${expires ? ' expires' : ''}`)
      }
    }
    return [...lines, 'end']
  }

  async checkpoint (name) {
    const location = path.join(root, `${path.basename(this.root.location)}-${name}`)
    await this.root.checkpoint(location)
    await this.root.close()
    this.root = this.db = new Loam(location, encodings)
    await this.root.open()
  }

  async backup (name) {
    const location = path.join(root, `${path.basename(this.root.location)}-${name}`)
    const backups = await Backups.open(path.join(root, 'backups'))
    const { id } = await backups.create(this.root)
    await backups.verify(id)
    await backups.restore(id, location)
    await backups.close()
    await this.root.close()
    this.root = this.db = new Loam(location, encodings)
    await this.root.open()
  }

  async tables (prefix, ...pairs) {
    const options = {}
    for (let i = 0; i < pairs.length; i += 2) {
      const name = pairs[i].replace(/_(.)/g, (_, c) => c.toUpperCase())
      options[name] = name === 'compression' ? pairs[i + 1].split(',') : pairs[i + 1]
    }
    await this.db.close()
    await this.db.open(options)
    await this.db.compact()
    const found = (await this.db.keys(rangeOf([`prefix=${prefix}`])).all()).length
    await this.db.close()
    await this.db.open()
    return [String(found)]
  }

  async ingest (...words) {
    const table = await TableWriter.create(path.join(root, 'a-table'))
    while (words.length > 0) {
      const [type, key] = [words.shift(), decode(words.shift())]
      if (type === 'put') table.put(key, decode(words.shift()))
      else if (type === 'expire') table.put(key, decode(words.shift()),
        { ttl: Number(words.shift()) })
      else if (type === 'delrange') table.deleteRange(key, decode(words.shift()))
      else table.del(key)
    }
    await table.finish()
    await this.db.ingest([table.location], { move: true })
  }

  bulkload (...words) {
    return this.db.bulkLoad((function * () {
      while (words.length > 0) yield [decode(words.shift()), decode(words.shift())]
    })())
  }

  option (name, value) {
    if (value !== undefined) this.db.setOption(name, value)
    return `= ${this.db.option(name)}`
  }

  async dump (name) {
    const location = path.join(root, `${path.basename(this.root.location)}-${name}`)
    const native = fs.statSync(path.join(this.root.location, 'CURRENT')).isDirectory()
    const stream = new PassThrough()
    const db = new Loam(location, { ...encodings, format: native ? 'native' : 'leveldb' })
    await db.open()
    await Promise.all([this.root.dump(stream), db.load(stream)])
    await this.root.close()
    this.root = this.db = db
  }

  async filter (name) {
    await this.db.close()
    await this.db.open({ compactionFilter: name })
    await this.db.compact()
    await this.db.close()
    await this.db.open()
  }
}

const runs = [
  [false, 'native', 'script', 'expected'], [true, 'native', 'script', 'expected'],
    [false, 'leveldb', 'script', 'expected'],
  [true, 'leveldb', 'script', 'expected'], [false, 'native', 'native', 'native.expected'],
    [true, 'native', 'native', 'native.expected'],
  [false, 'native', 'changes', 'changes.expected'], [true, 'native', 'changes', 'changes.expected']
]

for (const [sync, format, script, expected] of runs) {
  test(`conformance, ${script}, ${sync ? 'synchronous' : 'asynchronous'}, ${format}`, async (t) => {
    const db = new Loam(path.join(root, `${format}-${sync}-${script}`), { ...encodings, format })
    await db.open()
    const conformer = new Conformer(db, sync)
    const printed = []
    for (const line of fs.readFileSync(path.join(directory, script), 'utf8').split('\n')) {
      if (line === '' || line.startsWith('#')) continue
      printed.push(
        `> ${line}`, ...await conformer.run(...(([operation, ...args]) => [operation, args])(
          line.split(/\s+/))))
    }
    await conformer.root.close()
    t.same(printed, fs.readFileSync(path.join(directory, expected), 'utf8').trimEnd().split('\n'))
  })
}
