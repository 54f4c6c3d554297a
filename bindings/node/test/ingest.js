'use strict'

// Tables that are written outside of a database, ingests and loads.

const test = require('tape')
const { existsSync, mkdtempSync, rmSync } = require('fs')
const { join } = require('path')
const { tmpdir } = require('os')
const { Loam, TableWriter } = require('..')

const root = mkdtempSync(join(tmpdir(), 'loam-ingest-'))
test.onFinish(() => rmSync(root, { recursive: true, force: true }))
const temporary = () => mkdtempSync(join(root, 'each-'))
const failure = (promise) => promise.then(() => undefined, (err) => err)

async function write (location, pairs, options) {
  const table = await TableWriter.create(location, options)
  for (const [key, value] of pairs) table.put(key, value)
  await table.finish()
  await table.close()
  return location
}

test('ingest', async (t) => {
  const top = temporary()
  const db = new Loam(join(top, 'db'))
  await db.batch([{ type: 'put', key: 'a', value: 'old' }, { type: 'put', key: 'x', value: 'old' }])
  const snapshot = db.snapshot()
  const one = await write(join(top, 'one'),
    [['a', 'new'], [Buffer.from('b'), new Uint8Array([0x6e])]])
  const two = await TableWriter.create(join(top, 'two'))
  two.del('k')
  two.put('l', 'new', { ttl: 1000 })
  two.deleteRange('m', 'z')
  t.ok(two.size > 0)
  t.is(two.location, join(top, 'two'))
  await two.finish()
  await db.ingest([one, two.location], { move: true })
  t.same(await db.iterator().all(), [['a', 'new'], ['b', 'n'], ['l', 'new']])
  t.same(await db.iterator({ snapshot }).all(), [['a', 'old'], ['x', 'old']])
  t.ok(await db.ttl('l') <= 1001)
  t.notOk(existsSync(one))
  await snapshot.close()
  await db.ingest([await write(one, [['c', '1']])], { excise: ['a', 'd'] })
  t.same(await db.keys().all(), ['c', 'l'])
  t.ok(existsSync(one))
  await db.ingest([])
  const users = db.keyspace('users')
  await users.ingest([one])
  t.is(await users.get('c'), '1')
  t.ok((await db.metrics()).ingests.tables >= 4)
  await db.close()
  t.is((await failure(db.ingest([one]))).code, 'LEVEL_DATABASE_NOT_OPEN')
})

test('tables that cannot be ingested', async (t) => {
  const top = temporary()
  const db = new Loam(join(top, 'db'))
  const one = await write(join(top, 'one'), [['a', ''], ['c', '']])
  const two = await write(join(top, 'two'), [['b', '']])
  t.is((await failure(db.ingest([one, two]))).code, 'LEVEL_INVALID_ARGUMENT')
  t.is((await failure(
    db.ingest([await write(join(top, 'three'), [['a', '']], { format: 'leveldb' })]))).code,
    'LEVEL_INVALID_ARGUMENT')
  t.ok(await failure(db.ingest([join(top, 'none')])))
  t.ok(await failure(db.ingest(one)) instanceof TypeError)
  t.is((await failure(db.ingest([one], { excise: ['a'] }))).code, 'LEVEL_INVALID_ARGUMENT')
  t.is((await failure(db.ingest([one], { signal: AbortSignal.abort() }))).code, 'LEVEL_ABORTED')
  t.ok(await failure(TableWriter.create(one)), 'it exists')
  t.same(await db.keys().all(), [])
  const five = await TableWriter.create(join(top, 'five'))
  five.put('b', '')
  for (const put of [() => five.put('a', ''), () => five.put('c'),
    () => five.put('c', '', { ttl: -1 })]) {
    t.throws(put, { code: 'LEVEL_INVALID_ARGUMENT' })
  }
  await five.close()
  await five.close()
  t.notOk(existsSync(five.location))
  t.throws(() => five.put('c', ''), { code: 'LEVEL_TABLE_NOT_OPEN' })
  t.is((await failure(five.finish())).code, 'LEVEL_TABLE_NOT_OPEN')
  t.throws(() => new TableWriter(), TypeError)
  await db.close()
})

test('bulk load', async (t) => {
  const db = new Loam(join(temporary(), 'db'), { writeBufferSize: 65536, valueEncoding: 'json' })
  const n = 20000
  const order = Array.from({ length: 2 * n }, (_, i) => (i * 7919) % n) // a permutation, twice
  async function * entries () {
    for (const [i, k] of order.entries()) yield [String(k).padStart(8, '0'), { i }]
  }
  await db.bulkLoad(entries())
  const all = await db.iterator().all()
  t.is(all.length, n)
  t.ok(all.every(([, { i }]) => i >= n), 'the last one counts')
  t.ok(all.every(([key, { i }]) => Number(key) === order[i]))
  const { loaded, runs } = (await db.metrics()).ingests
  t.is(loaded, n)
  t.ok(runs > 0)
  await db.bulkLoad(new Map([['z', 1]]))
  t.is(await db.get('z'), 1)
  t.is((await failure(db.bulkLoad((function * () {
    yield ['a', 1]
    throw new RangeError('broken')
  })()))).message, 'broken')
  t.is((await failure(db.bulkLoad([['a', null]]))).code, 'LEVEL_INVALID_VALUE')
  t.ok(await failure(db.bulkLoad(5)) instanceof TypeError)
  t.is((await failure(db.bulkLoad([['a', 1]], { signal: AbortSignal.abort() }))).code,
    'LEVEL_ABORTED')
  const stop = new AbortController()
  const aborted = await failure(db.bulkLoad((function * () {
    yield ['a', 1]
    stop.abort()
    yield ['b', 1]
  })(), { signal: stop.signal }))
  t.is(aborted.code, 'LEVEL_ABORTED')
  // An abort does not wait for entries that never come.
  const never = new AbortController()
  let returned = false
  const stalled = {
    [Symbol.asyncIterator]: () => ({
      next: () => new Promise(() => setImmediate(() => never.abort())),
      return: () => { returned = true; return new Promise(() => {}) }
    })
  }
  t.is((await failure(db.bulkLoad(stalled, { signal: never.signal }))).code, 'LEVEL_ABORTED')
  t.ok(returned)
  const thrown = await failure(db.bulkLoad((async function * () {
    yield ['a', 1]
    throw new RangeError('broken')
  })(), { signal: new AbortController().signal }))
  t.is(thrown.message, 'broken')
  await db.bulkLoad((async function * () { yield ['y', 2] })(),
    { signal: new AbortController().signal })
  t.is(await db.get('y'), 2)
  t.is(await db.get('a'), undefined)
  let close
  const late = await failure(db.bulkLoad((async function * () {
    yield ['a', 1]
    close = db.close()
    await close
    yield ['b', 1]
  })()))
  t.ok(late, 'the database was closed')
})
