'use strict'

// Values that expire.

const test = require('tape')
const { mkdtempSync, rmSync } = require('fs')
const { join } = require('path')
const { tmpdir } = require('os')
const { Loam } = require('..')

const root = mkdtempSync(join(tmpdir(), 'loam-ttl-'))
test.onFinish(() => rmSync(root, { recursive: true, force: true }))
const temporary = () => join(mkdtempSync(join(root, 'each-')), 'db')
const refused = (t, promise, code) => promise.then(() => t.fail('written'), (err) =>
  t.is(err.code ?? err.name, code))

const native = { format: 'native' }

// Resolves once a value has expired, which the engine's clock decides and nothing reports.
async function gone (db, key) {
  while (await db.has(key)) await new Promise((resolve) => setTimeout(resolve, 10))
}

test('values expire', async function (t) {
  const db = new Loam(temporary(), native)
  await db.put('a', '1', { ttl: 1 })
  db.putSync('b', '2', { ttl: 0.5 })
  await db.batch(
    [{ type: 'put', key: 'c', value: '3', ttl: 1 }, { type: 'put', key: 'd', value: '4' }])
  db.batchSync(
    [{ type: 'put', key: 'e', value: '5', ttl: 1 },
      { type: 'put', key: 'h', value: '8', ttl: 3600 }])
  await db.batch().put('f', '6', { ttl: 1 }).put('i', '9').write()
  await db.transaction(async (tx) => {
    await tx.put('g', '7', { ttl: 1 })
    await tx.put('j', '10', { ttl: 2 ** 33 })
    t.equal(await tx.get('g'), '7')
  })
  const left = await db.ttl('h')
  t.ok(left > 3500 && left <= 3601, `${left} s are left`)
  t.ok(await db.ttl('j') > 2 ** 33 - 100)
  t.equal(await db.ttl('d'), Infinity)
  t.equal(await db.ttl('nothing'), undefined)
  for (const key of ['a', 'b', 'c', 'e', 'f', 'g']) await gone(db, key)
  t.same(await db.keys().all(), ['d', 'h', 'i', 'j'])
  await db.put('h', '8')
  t.equal(await db.ttl('h'), Infinity)
  const sub = db.sublevel('sub')
  await sub.put('k', '1', { ttl: 3600 })
  t.ok(await db.ttl('!sub!k') <= 3601)
  await db.close()
})

test('a keyspace has a time to live', async function (t) {
  const db = new Loam(temporary(), { ...native, defaultTtl: 3600 })
  const keyspace = db.keyspace('sessions', { defaultTtl: '10m' })
  await keyspace.open()
  await keyspace.put('a', '1')
  await db.put('a', '1')
  t.ok(await keyspace.ttl('a') <= 601)
  t.ok(await db.ttl('a') > 3000)
  await db.close()
})

test('a time to live where there is none is refused', async function (t) {
  const db = new Loam(temporary(), { ...native, mergeOperator: 'append' })
  await db.open()
  const [sub, ttl] = [db.sublevel('sub'), { ttl: 1 }]
  for (const place of [db, sub]) {
    for (const write of [
      () => place.putIfAbsent('a', '1', ttl),
      () => place.compareAndSwap('a', undefined, '1', ttl),
      () => place.merge('a', '1', ttl),
      async () => place.mergeSync('a', '1', ttl),
      async () => place.batchSync([{ type: 'merge', key: 'a', value: '1', ...ttl }]),
      async () => place.batchSync([{ type: 'merge', key: 'a', value: '1' }], ttl),
      () => place.transaction((tx) => tx.merge('a', '1', ttl))
    ]) await refused(t, write(), 'LEVEL_INVALID_ARGUMENT')
    t.is(await place.get('a'), undefined)
    t.is(await place.putIfAbsent('a', '1', { ttl: undefined }), true)
    await place.del('a')
  }
  await db.close()
})

test('bad times to live', async function (t) {
  const db = new Loam(temporary(), native)
  await db.open()
  for (const ttl of [0, -1, NaN, 1e11]) {
    await refused(t, db.put('a', '1', { ttl }), 'LEVEL_INVALID_ARGUMENT')
    t.throws(() => db.putSync('a', '1', { ttl }), (err) => err.code === 'LEVEL_INVALID_ARGUMENT')
  }
  await refused(t, db.put('a', '1', { ttl: '1' }), 'TypeError')
  t.equal(await db.get('a'), undefined)
  await db.close()
  const old = new Loam(temporary(), { format: 'leveldb' })
  await refused(t, old.put('a', '1', { ttl: 1 }), 'LEVEL_NEEDS_NATIVE')
  await old.close()
})
