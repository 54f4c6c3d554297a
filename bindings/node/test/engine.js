'use strict'

// What the engine offers beyond abstract-level and classic-level: upkeep,
// reports, logger, caches, orders; and the synchronous methods of sublevels.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { Loam, ClassicLevel, Cache } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-engine-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

let n = 0
const location = () => path.join(root, String(n++))

async function opened (options) {
  const db = new Loam(location(), options)
  await db.open()
  return db
}

const tables = (db) => [0, 1, 2, 3, 4, 5, 6].reduce((sum, level) => sum + Number(db.getProperty(`leveldb.num-files-at-level${level}`)), 0)

test("classic-level's name", (t) => {
  t.is(ClassicLevel, Loam)
  t.end()
})

test('flush, compact, sizes, metrics', async (t) => {
  const db = await opened({ compression: false })
  for (let i = 0; i < 100; i++) db.put(String(i).padStart(2, '0'), 'x'.repeat(1000)) // not awaited: flush() is
  await db.flush()
  t.is(tables(db), 1, 'flush')
  const metrics = await db.metrics()
  t.is(metrics.flush.count, 1)
  const [half, all, none] = await db.approximateSizes([['00', '50'], [undefined, null], ['99', '00']])
  t.ok(half > 40000 && half < 60000 && all > 90000 && none === 0, `${half} ${all} ${none}`)
  t.is(await db.approximateSize('00', '50'), half)

  // Another table beside it: whether compact() merges the two tells its range.
  await db.put('50', 'y')
  await db.flush()
  await db.compact('40', '50')
  t.is(await db.get('50'), 'y')
  await db.compactRange('99', '00')
  await db.compactRange('00', '99')
  await db.compact()
  t.is(tables(db), 1, 'all in one')
  t.is((await db.compact('b', 'a').catch((err) => err)).code, 'LEVEL_INVALID_ARGUMENT')
  db.pauseCompaction()
  db.resumeCompaction()
  db.retry()
  await db.put('after', 'x')
  await db.sync()
  await db.close()
})

test('the end of compactRange() is part of the range', async (t) => {
  const db = await opened({ disableCompaction: true })
  for (const value of ['1', '2']) { // tables that overlap in one key
    await db.put('k', value)
    await db.flush()
  }
  t.is(tables(db), 2)
  await db.compactRange('a', 'j')
  t.is(tables(db), 2)
  await db.compactRange('a', 'k')
  t.is(tables(db), 1)
  await db.close()
})

test('what was deferred until the database is open', async (t) => {
  const db = new Loam(location())
  const answers = await Promise.all([db.flush(), db.compact(), db.sync(), db.metrics(), db.recoveryReport(), db.approximateSizes([['a', 'b']]), db.compactRange('a', 'b')])
  t.is(typeof answers[3], 'object')
  t.is(answers[4].was_clean, true)
  t.same(answers[5], [0])
  await db.close()
})

test('reports of recovery and repair', async (t) => {
  const db = await opened()
  for (let i = 0; i < 100; i++) await db.put(String(i), 'x'.repeat(1000))
  await db.close()
  const log = fs.readdirSync(db.location).find((name) => name.endsWith('.log'))
  const file = path.join(db.location, log)
  const data = fs.readFileSync(file)
  data[50000] ^= 1
  fs.writeFileSync(file, data)
  const messages = []
  await db.open({ logger: (level, message) => messages.push([level, message]) })
  const report = await db.recoveryReport()
  t.is(report.dropped.length, 1)
  t.is(report.dropped[0].file, log)
  await db.close()
  await new Promise(setImmediate)
  t.is(messages.length, 1)
  t.is(messages[0][0], 'warn')
  t.ok(messages[0][1].includes(log))
  t.ok((await Loam.repair(db.location)).tables >= 0)
})

test('a logger with methods, as the console has them', async (t) => {
  const db = await opened()
  await db.put('a', '1')
  await db.close()
  fs.appendFileSync(path.join(db.location, fs.readdirSync(db.location).find((name) => name.endsWith('.log'))), Buffer.alloc(100, 7))
  const messages = []
  const logger = Object.fromEntries(['debug', 'info', 'warn', 'error'].map((name) => [name, (message) => messages.push(name)]))
  await db.open({ logger })
  await db.close()
  await new Promise(setImmediate)
  t.same(messages, ['warn'])
})

test('a cache for several databases', async (t) => {
  const cache = new Cache('8MiB')
  const [a, b] = await Promise.all([opened({ cache }), opened({ cache })])
  await a.put('k', 'a')
  await b.put('k', 'b')
  await a.compact()
  await a.get('k')
  t.is((await a.metrics()).cache.capacity, 8 * 1024 * 1024)
  t.same((await a.metrics()).cache, (await b.metrics()).cache)
  cache.close()
  t.is(await a.get('k'), 'a', 'databases keep it')
  await a.close()
  t.is(await b.get('k'), 'b')
  await b.close()
})

test("other orders of the keys", async (t) => {
  const comparator = 'rocksdb.ReverseBytewiseComparator'
  const db = await opened({ comparator })
  t.is(db.comparatorName(), comparator)
  await db.batch([...'abcde'].map((key) => ({ type: 'put', key, value: key })))
  const ranges = [
    [{}, 'edcba'], [{ gt: 'd' }, 'cba'], [{ gte: 'd' }, 'dcba'], [{ lt: 'b' }, 'edc'], [{ lte: 'b' }, 'edcb'],
    [{ gt: 'd', lte: 'b' }, 'cb'], [{ gt: 'cc', lte: 'bb' }, 'c'], [{ gt: 'a' }, ''], [{ lte: '0' }, 'edcba'], [{ gt: 'f' }, 'edcba']
  ]
  for (const [range, wanted] of ranges) {
    t.is((await db.keys(range).all()).join(''), wanted, JSON.stringify(range))
    t.is((await db.keys({ ...range, reverse: true }).all()).reverse().join(''), wanted, 'in reverse')
    t.is(db.iteratorSync(range).all().map(([key]) => key).join(''), wanted, 'synchronously')
  }
  for (const [target, forward, backward] of [['c', 'c', 'c'], ['cc', 'c', 'd'], ['f', 'e', undefined], ['0', undefined, 'a']]) {
    for (const reverse of [false, true]) {
      const iterator = db.keys({ reverse })
      iterator.seek(target)
      t.is(await iterator.next(), reverse ? backward : forward, `seek ${target}${reverse ? ' in reverse' : ''}`)
      await iterator.close()
    }
  }
  await db.compactRange('e', 'a')
  await db.clear({ gt: 'd', lte: 'b' })
  t.is((await db.keys().all()).join(''), 'eda')
  await db.close()

  // IndexedDB's keys: a prefix of database, store and index, then the key's type.
  const idb = await opened({ comparator: 'idb_cmp1', keyEncoding: 'buffer' })
  const number = (x) => {
    const key = Buffer.concat([Buffer.from([0, 1, 1, 1, 3]), Buffer.alloc(8)])
    key.writeDoubleLE(x, 5)
    return key
  }
  for (const x of [-5, 3, 100, -0.5, 7]) await idb.put(number(x), String(x))
  t.is((await idb.values().all()).join(), '-5,-0.5,3,7,100')
  t.is((await idb.values({ gt: number(-0.5), lte: number(7) }).all()).join(), '3,7')
  await idb.close()
})

test('synchronous methods of sublevels', async (t) => {
  const db = await opened()
  const a = db.sublevel('a', { valueEncoding: 'json' })
  const b = a.sublevel('b')
  const sibling = db.sublevel('sibling')
  await Promise.all([a.open(), b.open(), sibling.open()])
  const events = []
  for (const [name, level] of Object.entries({ db, a, b })) {
    level.on('write', (ops) => events.push([name, ...ops.map((op) => `${op.type} ${op.key}`)].join(' ')))
  }
  a.putSync('k', { x: 1 })
  b.putSync('k', 'v', { sync: true })
  t.same(a.getSync('k'), { x: 1 })
  t.is(b.getSync('k'), 'v')
  t.is(db.getSync('!a!!b!k'), 'v')
  t.same(events.splice(0), ['db put !a!k', 'a put k', 'db put !a!!b!k', 'a put !b!k', 'b put k'])

  b.delSync('k')
  t.is(b.getSync('k'), undefined)
  a.batchSync([
    { type: 'put', key: '1', value: [1] },
    { type: 'put', key: '2', value: 'two', sublevel: b },
    { type: 'put', key: '3', value: 'three', sublevel: sibling },
    { type: 'del', key: 'k' }
  ])
  t.same(await db.iterator().all(), [['!a!!b!2', 'two'], ['!a!1', '[1]'], ['!sibling!3', 'three']])

  for (const level of [a, b]) {
    await level.clear()
    for (const key of ['a', 'b', 'c', 'd']) level.putSync(key, 'x')
    for (const range of [{}, { gt: 'a' }, { gte: 'b', lt: 'd' }, { lte: 'b' }, { reverse: true, limit: 2 }, { lt: 'zz' }]) {
      t.same(level.iteratorSync(range).all(), await level.iterator(range).all(), JSON.stringify(range))
      const bytes = { ...range, keyEncoding: 'buffer', valueEncoding: 'view' }
      for (const name of ['gt', 'gte', 'lt', 'lte']) if (bytes[name]) bytes[name] = Buffer.from(bytes[name])
      t.same(level.iteratorSync(bytes).all().map(String), (await level.iterator(bytes).all()).map(String), 'as bytes')
    }
    const iterator = level.iteratorSync()
    iterator.seek('c')
    t.same(iterator.next().value[0], 'c')
    iterator.close()
  }
  const snapshot = a.snapshot()
  a.putSync('late', 1)
  t.is(a.iteratorSync({ snapshot, gte: 'late' }).all().length, 0)
  await snapshot.close()

  const open = b.iteratorSync()
  await b.close()
  t.throws(() => open.next(), { code: 'LEVEL_ITERATOR_NOT_OPEN' })
  for (const f of [() => b.putSync('a', 'b'), () => b.delSync('a'), () => b.batchSync([]), () => b.iteratorSync()]) {
    t.throws(f, { code: 'LEVEL_DATABASE_NOT_OPEN' })
  }
  const other = await opened()
  const foreign = other.sublevel('x')
  t.throws(() => db.batchSync([{ type: 'put', key: 'a', value: 'b', sublevel: foreign }]), { code: 'LEVEL_INVALID_ARGUMENT' })
  t.throws(() => a.batchSync([{ type: 'put', key: 'a', value: 'b', sublevel: foreign }]), { code: 'LEVEL_INVALID_ARGUMENT' })
  a.hooks.prewrite.add(() => {})
  t.throws(() => a.putSync('a', 1), { code: 'LEVEL_NOT_SUPPORTED' })
  await other.close()
  await db.close()
})
