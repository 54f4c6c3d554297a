'use strict'

// Runs testdata/conformance/script with the asynchronous and with the synchronous
// methods, on both formats, and compares with what every language must print.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { Loam } = require('..')

const directory = path.join(__dirname, '..', '..', '..', 'testdata', 'conformance')
const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-conformance-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

const encodings = { keyEncoding: 'buffer', valueEncoding: 'buffer' }
const end = Buffer.alloc(16, 0xff)

const decode = (text) => Buffer.from(text === '%' ? '' : text.replace(/%(..)/g, (_, hex) => String.fromCharCode(parseInt(hex, 16))), 'latin1')
const encode = (bytes) => bytes.length === 0 ? '%' : bytes.toString('latin1').replace(/[^\w.-]/g, (c) => '%' + c.charCodeAt(0).toString(16).padStart(2, '0'))
const valueLine = (value) => value === undefined ? 'none' : `= ${encode(value)}`
const entryLine = ([key, value]) => `${encode(key)} ${encode(value)}`

// The first key that does not begin with the prefix; undefined: there is none.
function prefixEnd (prefix) {
  for (let i = prefix.length - 1; i >= 0; i--) {
    if (prefix[i] < 0xff) return Buffer.concat([prefix.subarray(0, i), Buffer.from([prefix[i] + 1])])
  }
}

class Conformer {
  constructor (db, sync) {
    this.root = db
    this.db = db // the keyspace that operations work in
    this.sync = sync
    this.snapshots = new Map()
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

  async #keyspace (name) {
    if (name === 'default') return this.root
    const keyspace = this.root.keyspace(name, encodings)
    await keyspace.open()
    return keyspace
  }

  async use (name) {
    this.db = await this.#keyspace(name)
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
      if (type === 'put') operation.value = decode(args.shift())
      operations.push(operation)
    }
    if (!this.sync) return this.db.batch(operations)
    this.db.batchSync(operations)
  }

  async get (key, at) {
    const options = { snapshot: at === undefined ? undefined : this.snapshots.get(at.slice(1)) }
    return valueLine(this.sync ? this.db.getSync(decode(key), options) : await this.db.get(decode(key), options))
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
    const options = {}
    for (const arg of args) {
      const [name, value] = arg.split('=')
      if (name === 'lower') options.gte = decode(value)
      else if (name === 'upper') options.lt = decode(value)
      else if (name === 'prefix') Object.assign(options, { gte: decode(value), lt: prefixEnd(decode(value)) })
      else if (name === 'limit') options.limit = Number(value)
      else if (name === 'reverse') options.reverse = true
      else options.snapshot = this.snapshots.get(name.slice(1))
    }
    if (options.lt === undefined) delete options.lt
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

  async filter (name) {
    await this.db.close()
    await this.db.open({ compactionFilter: name })
    await this.db.compact()
    await this.db.close()
    await this.db.open()
  }
}

const runs = [
  [false, 'native', 'script', 'expected'], [true, 'native', 'script', 'expected'], [false, 'leveldb', 'script', 'expected'],
  [true, 'leveldb', 'script', 'expected'], [false, 'native', 'native', 'native.expected'], [true, 'native', 'native', 'native.expected']
]

for (const [sync, format, script, expected] of runs) {
  test(`conformance, ${script}, ${sync ? 'synchronous' : 'asynchronous'}, ${format}`, async (t) => {
    const db = new Loam(path.join(root, `${format}-${sync}-${script}`), { ...encodings, format })
    await db.open()
    const conformer = new Conformer(db, sync)
    const printed = []
    for (const line of fs.readFileSync(path.join(directory, script), 'utf8').split('\n')) {
      if (line === '' || line.startsWith('#')) continue
      printed.push(`> ${line}`, ...await conformer.run(...(([operation, ...args]) => [operation, args])(line.split(/\s+/))))
    }
    await db.close()
    t.same(printed, fs.readFileSync(path.join(directory, expected), 'utf8').trimEnd().split('\n'))
  })
}
