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

const tables = (db) => [0, 1, 2, 3, 4, 5, 6].reduce(
  (sum, level) => sum + Number(db.getProperty(`leveldb.num-files-at-level${level}`)), 0)

const isLevelDB = (db) => fs.statSync(path.join(db.location, 'CURRENT')).isFile()

test('the format of new databases', async (t) => {
  for (const [Level, options, want] of [
    [Loam, {}, false], [Loam, { format: 'leveldb' }, true], [ClassicLevel, {}, true],
      [ClassicLevel, { format: undefined }, true],
    [ClassicLevel, { format: 'native' }, false]
  ]) {
    const db = new Level(location(), options)
    t.ok(db instanceof Loam)
    await db.put('a', '1')
    await db.close()
    t.is(isLevelDB(db), want, `${Level.name} ${JSON.stringify(options)}`)
    for (const Other of [Loam, ClassicLevel]) { // which changes nothing
      const again = new Other(db.location)
      t.is(await again.get('a'), '1')
      await again.close()
      t.is(isLevelDB(db), want)
    }
  }
  const late = new ClassicLevel(location())
  await late.close()
  await late.open({ passive: false })
  t.ok(isLevelDB(late))
  await late.close()
})

test('flush, compact, sizes, metrics', async (t) => {
  const db = await opened({ compression: false })
  // not awaited: flush() is
  for (let i = 0; i < 100; i++) db.put(String(i).padStart(2, '0'), 'x'.repeat(1000))
  await db.flush()
  t.is(tables(db), 1, 'flush')
  const metrics = await db.metrics()
  t.is(metrics.flush.count, 1)
  const [half, all, none] = await db.approximateSizes(
    [['00', '50'], [undefined, null], ['99', '00']])
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
  const answers = await Promise.all(
    [db.flush(), db.compact(), db.sync(), db.metrics(), db.recoveryReport(),
      db.approximateSizes([['a', 'b']]), db.compactRange('a', 'b')])
  t.is(typeof answers[3], 'object')
  t.is(answers[4].was_clean, true)
  t.same(answers[5], [0])
  await db.close()
})

test('reports of recovery and repair', async (t) => {
  const db = await opened({ format: 'leveldb' })
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

// A native log that was closed knows what it held: nothing is dropped without a word.
test('a damaged native log is an error', async (t) => {
  const db = await opened({ format: 'native' })
  for (let i = 0; i < 100; i++) await db.put(String(i), 'x'.repeat(1000))
  await db.close()
  const log = fs.readdirSync(db.location).find((name) => name.endsWith('.wal'))
  const file = path.join(db.location, log)
  const data = fs.readFileSync(file)
  data[50000] ^= 1
  fs.writeFileSync(file, data)
  const err = await db.open().catch((err) => err.cause)
  t.is(err.code, 'LEVEL_CORRUPTION')
  t.ok(err.message.includes(log))
  data[50000] ^= 1
  fs.writeFileSync(file, data)
  await db.open()
  t.is((await db.keys().all()).length, 100)
  await db.close()
})

test('a logger with methods, as the console has them', async (t) => {
  const db = await opened({ format: 'leveldb' })
  await db.put('a', '1')
  await db.close()
  fs.appendFileSync(
    path.join(db.location, fs.readdirSync(db.location).find((name) => name.endsWith('.log'))),
    Buffer.alloc(100, 7))
  const messages = []
  const logger = Object.fromEntries(
    ['debug', 'info', 'warn', 'error'].map((name) => [name, (message) => messages.push(name)]))
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

test('other orders of the keys', async (t) => {
  const comparator = 'rocksdb.ReverseBytewiseComparator'
  const db = await opened({ comparator })
  t.is(db.comparatorName(), comparator)
  await db.batch([...'abcde'].map((key) => ({ type: 'put', key, value: key })))
  const ranges = [
    [{}, 'edcba'], [{ gt: 'd' }, 'cba'], [{ gte: 'd' }, 'dcba'], [{ lt: 'b' }, 'edc'],
      [{ lte: 'b' }, 'edcb'],
    [{ gt: 'd', lte: 'b' }, 'cb'], [{ gt: 'cc', lte: 'bb' }, 'c'], [{ gt: 'a' }, ''],
      [{ lte: '0' }, 'edcba'], [{ gt: 'f' }, 'edcba']
  ]
  for (const [range, wanted] of ranges) {
    t.is((await db.keys(range).all()).join(''), wanted, JSON.stringify(range))
    t.is((await db.keys({ ...range, reverse: true }).all()).reverse().join(''), wanted,
      'in reverse')
    t.is(db.iteratorSync(range).all().map(([key]) => key).join(''), wanted, 'synchronously')
  }
  for (const [target, forward, backward] of [['c', 'c', 'c'], ['cc', 'c', 'd'],
    ['f', 'e', undefined], ['0', undefined, 'a']]) {
    for (const reverse of [false, true]) {
      const iterator = db.keys({ reverse })
      iterator.seek(target)
      t.is(await iterator.next(), reverse ? backward : forward,
        `seek ${target}${reverse ? ' in reverse' : ''}`)
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
    level.on('write', (ops) => events.push([name, ...ops.map((op) => `${op.type} ${op.key}`)].join(
      ' ')))
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
    for (const range of [{}, { gt: 'a' }, { gte: 'b', lt: 'd' }, { lte: 'b' },
      { reverse: true, limit: 2 }, { lt: 'zz' }]) {
      t.same(level.iteratorSync(range).all(), await level.iterator(range).all(),
        JSON.stringify(range))
      const bytes = { ...range, keyEncoding: 'buffer', valueEncoding: 'view' }
      for (const name of ['gt', 'gte', 'lt', 'lte']) {
        if (bytes[name]) bytes[name] = Buffer.from(bytes[name])
      }
      t.same(level.iteratorSync(bytes).all().map(String), (await level.iterator(bytes).all()).map(
        String), 'as bytes')
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
  for (const f of [() => b.putSync('a', 'b'), () => b.delSync('a'), () => b.batchSync([]),
    () => b.iteratorSync()]) {
    t.throws(f, { code: 'LEVEL_DATABASE_NOT_OPEN' })
  }
  const other = await opened()
  const foreign = other.sublevel('x')
  t.throws(() => db.batchSync([{ type: 'put', key: 'a', value: 'b', sublevel: foreign }]),
    { code: 'LEVEL_INVALID_ARGUMENT' })
  t.throws(() => a.batchSync([{ type: 'put', key: 'a', value: 'b', sublevel: foreign }]),
    { code: 'LEVEL_INVALID_ARGUMENT' })
  await other.close()
  await db.close()
})

// What hooks see and add, what is written and what is emitted, of the same writes
// made by the methods of abstract-level and by the synchronous ones.
test('prewrite hooks run for synchronous writes as for others', async (t) => {
  const outcome = async function (put, del, batch) {
    const db = await opened()
    const a = db.sublevel('a', { valueEncoding: 'json' })
    const b = a.sublevel('b')
    const index = db.sublevel('index')
    const seen = []
    const note = (name, op) =>
      seen.push([name, op.type, op.key, op.value, op.keyEncoding.commonName, op.sublevel?.prefix])
    await Promise.all([a.open(), b.open(), index.open()])
    for (const [name, level] of Object.entries({ db, a, b, index })) {
      level.on(
        'write', (ops) =>
        seen.push(
          [name, ...Object.values(ops).map(
            (op) => [op.type, op.key, op.value, op.encodedKey, op.encodedValue,
              op.valueEncoding?.commonName])]))
    }
    db.hooks.prewrite.add((op, batch) => {
      note('db', op)
      if (op.type === 'put') batch.add({ type: 'put', key: 'last', value: op.key, sublevel: index })
    })
    a.hooks.prewrite.add((op, batch) => {
      note('a', op)
      if (op.key === 'twice') {
        batch.add({ type: 'del', key: 'k' }).add({ type: 'put', key: 'more', value: [1] })
      }
      if (op.key === 'changed') op.value = { now: op.value }
    })
    a.hooks.prewrite.add((op) => note('a again', op))
    await put(db, 'plain', 'v')
    await put(a, 'k', { x: 1 })
    await put(b, 'k', 'v', { sync: true })
    await put(a, 'twice', 2)
    await put(a, 'changed', 3)
    await batch(a, [
      { type: 'put', key: '1', value: [1] },
      { type: 'put', key: '2', value: 'two', sublevel: b },
      { type: 'put', key: '3', value: 'three', sublevel: index },
      { type: 'del', key: 'nothing' }
    ])
    await del(b, 'k')
    a.hooks.prewrite.add((op) => { throw new TypeError(op.key) })
    const failure = await (async () => put(a, 'refused', 1))().catch((err) => err)
    const invalid = await (async () => put(a, null, 1))().catch((err) => err)
    const entries = await db.iterator().all()
    await db.close()
    return { seen, entries, failures: [failure.code, failure.cause.message, invalid.code] }
  }
  const usual = await outcome((l, k, v, o) => l.put(k, v, o), (l, k) => l.del(k), (l, ops) =>
    l.batch(ops))
  const sync = await outcome((l, k, v, o) => l.putSync(k, v, o), (l, k) => l.delSync(k),
    (l, ops) => l.batchSync(ops))
  t.ok(usual.seen.length > 30 && usual.entries.some(([key]) => key === '!index!last'),
    `${usual.seen.length} calls`)
  t.same(sync.entries, usual.entries)
  t.same(sync.seen, usual.seen)
  t.same(sync.failures, usual.failures)
})

test('checkpoint', async (t) => {
  const db = await opened()
  const to = db.location + '-copy'
  const writes = [db.put('a', '1'), db.flush(), db.put('b', '2')]
  await db.checkpoint(to)
  await Promise.all(writes)
  await db.put('c', '3')
  const copy = new Loam(to)
  await copy.put('d', '4')
  t.same(await copy.keys().all(), ['a', 'b', 'd'])
  await copy.close()
  t.same(await db.keys().all(), ['a', 'b', 'c'])
  const taken = await db.checkpoint(to).catch((err) => err)
  t.is(taken.code, 'LEVEL_DATABASE_EXISTS')
  t.ok(taken.message.includes('is not empty'), taken.message)
  const aborted = await db.checkpoint(to + '2', { signal: AbortSignal.abort() }).catch((err) => err)
  t.is(aborted.code, 'LEVEL_ABORTED')
  const soon = new AbortController()
  const ended = db.checkpoint(to + '2', { signal: soon.signal }).catch((err) => err)
  soon.abort()
  const outcome = await ended
  t.ok(outcome === undefined || outcome.code === 'LEVEL_ABORTED', `${outcome}`)
  t.is(fs.existsSync(to + '2'), outcome === undefined)
  t.notOk(fs.existsSync(to + '2.incomplete'))
  for (const wrong of [undefined, '', 1]) {
    t.ok(await db.checkpoint(wrong).catch((err) => err) instanceof TypeError)
  }
  t.ok((await db.metrics()).checkpoints.count >= 2)
  await db.close()
  t.is((await db.checkpoint(to + '3').catch((err) => err)).code, 'LEVEL_DATABASE_NOT_OPEN')
})

test('verify', async (t) => {
  const db = await opened({ compression: false, disableCompaction: true })
  for (let i = 0; i < 1000; i++) db.putSync(`${i}`, 'x'.repeat(1000))
  await db.flush()
  await db.verify()
  const told = []
  await db.verify({ progress: (done, total) => told.push([done, total]) })
  const [done, total] = told.at(-1)
  t.ok(done === total && total > 9e5, `${done} of ${total}`)
  const thrown = await db.verify({ progress () {
    throw new RangeError('no more')
  } }).catch((err) => err)
  t.ok(thrown instanceof RangeError, `${thrown}`)
  const aborted = await db.verify({ signal: AbortSignal.abort() }).catch((err) => err)
  t.is(aborted.code, 'LEVEL_ABORTED')
  for (const wrong of [{ progress: 1 }, { signal: 'now' }]) {
    t.ok(await db.verify(wrong).catch((err) => err) instanceof TypeError)
  }

  const table = fs.readdirSync(db.location).find((name) => /\.(ldb|loam)$/.test(name))
  const file = fs.openSync(path.join(db.location, table), 'r+')
  fs.writeSync(file, '?', 300000)
  fs.closeSync(file)
  const damage = await db.verify().catch((err) => err)
  t.is(damage.code, 'LEVEL_CORRUPTION')
  t.ok(damage.message.includes(table), damage.message)
  await db.close()
  t.is((await db.verify().catch((err) => err)).code, 'LEVEL_DATABASE_NOT_OPEN')
})

test('compaction with progress, and ended by a signal', async (t) => {
  const db = await opened({ disableCompaction: true, writeBufferSize: '1MiB', compression: false })
  const fill = async function () {
    for (let i = 0; i < 20000; i++) db.putSync(`${Math.random()}`, 'x'.repeat(500))
    await db.flush()
  }
  await fill()
  const told = []
  await db.compact(null, null, { progress: (done, total) => told.push([done, total]) })
  const [done, total] = told.at(-1)
  t.ok(done === total && total > 5e6, `${done} of ${total}`)
  t.ok(told.every(([d], i) => i === 0 || d >= told[i - 1][0]), 'it goes on')

  await fill()
  const before = tables(db)
  const controller = new AbortController()
  db.setOption('compactionRate', '1MiB') // the compaction would take some ten seconds
  const ended = db.compact(undefined, undefined, { signal: controller.signal })
  await new Promise(setImmediate)
  controller.abort(new Error('enough'))
  const error = await ended.then(() => null, (err) => err)
  db.setOption('compactionRate', 0)
  t.is(error.name, 'AbortError')
  t.is(error.code, 'LEVEL_ABORTED')
  t.is(error.cause.message, 'enough')
  t.ok(before > 1)
  const late = await db.compactRange('0', '1', { signal: controller.signal }).catch((err) => err)
  t.is(late.code, 'LEVEL_ABORTED', 'aborted before it began')

  const thrown = await db.compact(null, null, { progress () {
    throw new RangeError('no more')
  } }).catch((err) => err)
  t.ok(thrown instanceof RangeError, `${thrown}`)
  for (const wrong of [{ progress: 1 }, { signal: 'now' }]) {
    t.ok(await db.compact(null, null, wrong).catch((err) => err) instanceof TypeError)
  }
  t.is((await db.compact('b', 'a', { progress () {} }).catch((err) => err)).code,
    'LEVEL_INVALID_ARGUMENT')

  // Closing waits for a compaction, which then ends or has ended.
  const last = db.compact(null, null, { signal: new AbortController().signal }).catch((err) => err)
  await db.close()
  await last
  t.is((await db.compact(null, null, { progress () {} }).catch((err) => err)).code,
    'LEVEL_DATABASE_NOT_OPEN')
})
