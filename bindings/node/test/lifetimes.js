'use strict'

// Every method that the package exports, called on objects that have ended or are ending, on
// objects of another database, twice at once, and with missing or nonsensical arguments. The
// methods are found through the prototypes, so that a new one is tried as well; what has to hold is
// the same for all: a call answers, or fails with an Error that has a code or is a TypeError, in
// good time, and the database beside it is unharmed.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { AbstractLevel, AbstractSublevel } = require('abstract-level')
const { EventEmitter } = require('events')
const loamdb = require('..')
const { Loam, Cache, Resources } = loamdb

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-lifetimes-'))
process.chdir(root) // nonsense may name a file
test.onFinish(() => {
  process.chdir(os.tmpdir())
  fs.rmSync(root, { recursive: true, force: true })
})

let n = 0
async function opened (options) {
  const db = new Loam(path.join(root, String(n++)), options)
  await db.open()
  await db.batch([...'abcdefgh'].map((key) => ({ type: 'put', key, value: key })))
  return db
}

// Public methods of an object, those of EventEmitter excepted; of abstract-level's,
// the queue, which answers when the status changes next, and the counting of
// references to a snapshot, which close() waits for.
function methodsOf (object) {
  const names = new Set()
  for (let p = object; p !== null && p !== EventEmitter.prototype &&
    p !== Object.prototype; p = Object.getPrototypeOf(p)) {
    for (const name of Reflect.ownKeys(p)) {
      const { value } = Object.getOwnPropertyDescriptor(p, name)
      const internal = typeof name === 'string' &&
        (name.startsWith('_') || ['constructor', 'defer', 'deferAsync', 'ref', 'unref'].includes(
          name))
      const own = typeof name === 'symbol' && name !== Symbol.dispose &&
        name !== Symbol.asyncDispose && name !== Symbol.iterator && name !== Symbol.asyncIterator
      if (typeof value === 'function' && !internal && !own) names.add(name)
    }
  }
  return [...names]
}

// What the methods are called with where it matters; all others, and these too, with nothing and
// nonsense.
const arguments_ = {
  get: ['a'], getSync: ['a'], getMany: [['a', 'b']], has: ['a'], hasMany: [['a', 'b']],
  put: ['a', 'x'], putSync: ['a', 'x'], del: ['b'], delSync: ['b'],
  transaction: [(tx) => tx.put('a', 'x')], compareAndSwap: ['a', 'a', 'x'], putIfAbsent: ['a', 'x'],
  batch: [[{ type: 'put', key: 'a', value: 'x' }]],
    batchSync: [[{ type: 'put', key: 'a', value: 'x' }]],
  clear: [{ gte: 'h' }], iterator: [{ limit: 3 }], iteratorSync: [{ limit: 3 }], keys: [{}],
    values: [{}],
  sublevel: ['s'], approximateSize: ['a', 'b'], approximateSizes: [[['a', 'b']]],
    compact: ['a', 'b'], compactRange: ['a', 'b'],
  getProperty: ['leveldb.stats'], setOption: ['blockSize', 4096], option: ['blockSize'],
    dropKeyspace: ['none'], nextv: [2], seek: ['c'],
  attachResource: [{ close: async () => {} }], detachResource: [{}], prefixKey: ['a', 'utf8', true],
  keyEncoding: ['utf8'], valueEncoding: ['utf8'], write: [{}], path: [], return: [1]
}

// The objects that a database makes, each in a state of being open.
const kinds = {
  database: (db) => db,
  keyspace: async (db) => {
    const keyspace = db.keyspace('default')
    await keyspace.open()
    return keyspace
  },
  sublevel: (db) => db.sublevel('s'),
  'nested sublevel': (db) => db.sublevel('s').sublevel('t'),
  iterator: (db) => db.iterator(),
  keys: (db) => db.keys(),
  values: (db) => db.values(),
  'iterator of a sublevel': async (db) => {
    const sub = db.sublevel('s')
    await sub.open()
    return sub.iterator()
  },
  iteratorSync: (db) => db.iteratorSync(),
  snapshot: (db) => db.snapshot(),
  'chained batch': (db) => db.batch().put('a', 'x')
}

const LIMIT = 120000 // ms; nothing here takes long

async function outcome (call) {
  let timer
  const late = new Promise((resolve) => { timer = setTimeout(resolve, LIMIT, { late: true }) })
  const answer = (async () => {
    try {
      let value = call()
      if (value?.close !== undefined && value?.then === undefined &&
        typeof value[Symbol.asyncIterator] === 'function') {
        try {
          // next of a feed of changes waits for a write
          value = await (value.poll ?? value.next).call(value)
        } finally {
          // A closed one closes again.
        }
      }
      return { value: await value }
    } catch (err) {
      return { err }
    }
  })()
  const result = await Promise.race([answer, late])
  clearTimeout(timer)
  return result
}

function isProper ({ late, err }) {
  if (late) return false
  if (err === undefined) return true
  return err instanceof TypeError || (err instanceof Error && typeof err.code === 'string' &&
    /^(LEVEL|ERR)_/.test(err.code) && err.code !== 'LEVEL_INTERNAL_ERROR' && err.message !== '')
}

// Methods whose answer does not depend on the database being open.
const HARMLESS = new Set(['open', 'close', 'keyEncoding', 'valueEncoding', 'prefixKey', 'path',
  'attachResource', 'detachResource',
  'sublevel', 'seek', 'return', Symbol.dispose, Symbol.asyncDispose, Symbol.iterator,
    Symbol.asyncIterator])

async function release (db) {
  await outcome(() => db.open())
  await outcome(() => db.close())
}

const states = {
  // The object's database is closed.
  'after the database closed': async (db) => { await db.close() },
  // The object is closed, its database not.
  'after it closed': async (db, object) => { await outcome(() => object.close()) },
  // Closing has begun and is not awaited.
  'while it closes': (db, object) => { outcome(() => object.close()) },
  'while the database closes': (db) => { outcome(() => db.close()) },
  // Under load.
  'while writes are under way': (db) => {
    for (let i = 0; i < 50; i++) {
      db.put(`w${i}`, 'x'.repeat(2000), { sync: i === 0 }).catch(() => {})
    }
  }
}

for (const [kind, make] of Object.entries(kinds)) {
  test(`methods of: ${kind}`, async (t) => {
    const beside = await opened()
    const sample = await opened()
    const names = methodsOf(await make(sample))
    await release(sample)
    t.ok(names.length >= 2, `${names.length} methods`)
    for (const [state, enter] of Object.entries(states)) {
      const wrong = []
      const db = await opened()
      for (const name of names) {
        // A database that an earlier call closed or damaged does not count.
        if (db.status !== 'open') await db.open()
        const object = await make(db)
        if (object instanceof AbstractLevel) await object.open()
        await enter(db, object)
        const result = await outcome(() => object[name](...(arguments_[name] ?? [])))
        if (!isProper(result)) wrong.push([name, result])
        const closed = state === 'after the database closed' ||
          (state === 'after it closed' && kind !== 'snapshot' && kind !== 'chained batch')
        if (closed && !HARMLESS.has(name) && result.err === undefined) {
          wrong.push([name, 'succeeded', result])
        }
        await outcome(() => object.close())
        await outcome(() => db.close()) // ends what still closes
      }
      t.same(wrong, [], state)
      await release(db)
    }
    t.same(await beside.keys().all(), [...'abcdefgh'], 'the database beside it')
    await beside.close()
  })
}

test('nothing and nonsense as arguments', async (t) => {
  const db = await opened()
  const wrong = []
  const nonsense = [[], [null], [undefined, undefined, undefined], [NaN, -1], [{}, {}, {}],
    [[], []], [Symbol('x')], [() => {}, 1n], [[null, {}]], [{ then: 1 }],
    ['a', 'b', { keyEncoding: 'none' }], ['a', { snapshot: {} }], [['a'], { snapshot: 1 }],
      [{ snapshot: {}, gt: 'a' }]]
  for (const [kind, make] of Object.entries(kinds)) {
    for (const name of methodsOf(await make(db))) {
      if (['open', Symbol.asyncDispose, 'attachResource'].includes(name) ||
        (name === 'close' && kind === 'database')) continue
      for (const args of nonsense) {
        const object = await make(db)
        if (object instanceof AbstractLevel) await object.open()
        const result = await outcome(() => object[name](...args))
        // abstract-level's own checks throw plain errors of JavaScript for some of these.
        if (result.late || (result.err !== undefined && !(result.err instanceof Error))) {
          wrong.push([kind, name, args, result])
        }
        if (object !== db) await outcome(() => object.close())
      }
    }
  }
  t.same(wrong, [])
  t.is(db.status, 'open')
  await db.close()
})

test('objects of another database', async (t) => {
  const [a, b] = [await opened(), await opened()]
  const snapshot = b.snapshot()
  const sublevel = b.sublevel('s')
  await sublevel.open()
  for (const name of ['get', 'getSync', 'getMany', 'has', 'hasMany', 'iterator', 'iteratorSync',
    'keys', 'values', 'clear']) {
    const [first] = arguments_[name]
    const options = { ...(typeof first === 'object' && !Array.isArray(first) ? first : {}),
      snapshot }
    const args = typeof first === 'object' && !Array.isArray(first) ? [options] : [first, options]
    const { err } = await outcome(() => a[name](...args))
    t.is(err?.code, 'LEVEL_INVALID_ARGUMENT', `a snapshot, ${name}`)
  }
  const operation = { type: 'put', key: 'a', value: 'x', sublevel }
  for (const call of [() => a.batch([operation]), () => a.batchSync([operation]),
    () => a.batch().put('a', 'x', { sublevel }).write()]) {
    t.is((await outcome(call)).err?.code, 'LEVEL_INVALID_ARGUMENT', 'a sublevel')
  }
  t.is(await a.get('a'), 'a')
  t.is(b.getSync('a', { snapshot }), 'a')
  await a.close()
  await b.close()
})

test('twice at once', async (t) => {
  const wrong = []
  for (const [kind, make] of Object.entries(kinds)) {
    const db = await opened()
    for (const name of methodsOf(await make(db))) {
      if (db.status !== 'open') await db.open()
      const object = await make(db)
      if (object instanceof AbstractLevel) await object.open()
      const args = arguments_[name] ?? []
      const results = await Promise.all(
        [outcome(() => object[name](...args)), outcome(() => object[name](...args))])
      for (const result of results) if (!isProper(result)) wrong.push([kind, name, result])
      await outcome(() => object.close())
    }
    await release(db)
  }
  t.same(wrong, [])
})

test('a shared cache that is closed, in each order', async (t) => {
  for (const order of ['cache first', 'database first', 'in between']) {
    const cache = new Cache('1MiB')
    const [a, b] = [await opened({ cache }), await opened({ cache })]
    if (order === 'cache first') cache.close()
    await a.close()
    if (order === 'in between') cache.close()
    await b.compact()
    t.is(await b.get('a'), 'a', order)
    await b.close()
    cache.close()
  }
  t.same(methodsOf(Cache.prototype).filter((name) => typeof name === 'string').sort(),
    ['close', 'native'], 'all its methods are tried')
})

test('shared resources that are closed, in each order', async (t) => {
  for (const order of ['resources first', 'database first', 'in between']) {
    const resources = new Resources({ memory: '16MiB', backgroundJobs: 1 })
    const [a, b] = [await opened({ resources }), await opened({ resources })]
    resources.set('openFiles', 20)
    if (order === 'resources first') resources.close()
    await a.close()
    if (order === 'in between') resources.close()
    await b.compact()
    t.is(await b.get('a'), 'a', order)
    await b.close()
    resources.close()
    for (const use of [() => resources.set('openFiles', 1), () => resources.metrics()]) {
      t.throws(use, { code: 'LEVEL_CACHE_NOT_OPEN' })
    }
  }
  t.same(methodsOf(Resources.prototype).filter((name) => typeof name === 'string').sort(),
    ['close', 'metrics', 'native', 'set'], 'all its methods are tried')
})

test('everything that is exported is tried', async (t) => {
  t.same(Object.keys(loamdb).sort(), ['Backups', 'Cache', 'ClassicLevel', 'Keyspace', 'Loam',
    'Resources', 'TableWriter', 'prefixFilter', 'verifyDump'])
  t.same(Object.getOwnPropertyNames(Loam).filter(
    (name) => typeof Loam[name] === 'function').sort(), ['destroy', 'export', 'follow', 'repair',
    'upgrade'])
  const db = await opened()
  for (const method of ['destroy', 'export', 'follow', 'repair', 'upgrade']) {
    if (method !== 'follow') {
      t.is((await outcome(() => Loam[method](db.location, `${db.location}-to`))).err?.code,
        'LEVEL_LOCKED', `${method} of an open database`)
    }
    for (const args of [[], [null], [''], [1], [{}]]) {
      t.ok((await outcome(() => Loam[method](...args))).err instanceof TypeError, method)
    }
    const { err } = await outcome(() => Loam[method]('a\0b', method === 'follow' ? {} : 'to'))
    // follow opens: the cause tells
    t.is((method === 'follow' ? err?.cause : err)?.code, 'LEVEL_INVALID_ARGUMENT', method)
  }
  t.is(await db.get('a'), 'a')
  t.ok(db.sublevel('x') instanceof AbstractSublevel)
  await db.close()
})
