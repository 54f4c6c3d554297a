'use strict'

// Resources that databases share, and options that change.

const test = require('tape')
const { mkdtempSync, rmSync } = require('fs')
const { join } = require('path')
const { tmpdir } = require('os')
const { Loam, Resources, Cache } = require('..')

const root = mkdtempSync(join(tmpdir(), 'loam-resources-'))
test.onFinish(() => rmSync(root, { recursive: true, force: true }))
const temporary = () => join(mkdtempSync(join(root, 'each-')), 'db')

test('databases share resources', async function (t) {
  t.throws(() => new Resources().metrics(), { code: 'LEVEL_INVALID_ARGUMENT' },
    'the engine is not loaded')
  const resources = new Resources({ memory: '64MiB', backgroundJobs: 2, ioBytesPerSecond: '100MiB',
    openFiles: 50 })
  resources.set('backgroundJobs', 1)
  const [a, b] = [new Loam(temporary(), { resources }), new Loam(temporary(), { resources })]
  await Promise.all([a.open(), b.open()])
  t.is(resources.metrics().memory, 64 * 2 ** 20)
  const value = 'x'.repeat(1000)
  for (let i = 0; i < 3000; i++) {
    a.putSync(`${i}`, value)
    b.putSync(`${i}`, value)
  }
  t.ok(resources.metrics().memtable_bytes > 6e6)
  resources.set('memory', '16MiB')
  t.is(resources.metrics().memory, 16 * 2 ** 20)
  for (const [name, limit] of [['memory', '1GiB'], ['memory', 1], ['nothing', 1],
    ['openFiles', 'many'], ['openFiles', -1]]) {
    t.throws(() => resources.set(name, limit), { code: 'LEVEL_INVALID_ARGUMENT' },
      `${name} ${limit}`)
  }
  await a.close()
  resources.close()
  await b.flush()
  t.is(await b.get('7'), value)
  await b.close()
  for (const options of [{ resources }, { resources: {} },
    { resources: new Resources(), cache: new Cache(1) }]) {
    const err = await new Loam(temporary(), options).open().then(() => null, (err) => err)
    t.ok(err?.cause?.code?.startsWith('LEVEL_'), String(err?.cause))
  }
})

test('memory of the container', async function (t) {
  const resources = new Resources({ memory: 'auto' })
  const db = new Loam(temporary(), { resources })
  await db.open()
  const found = resources.metrics().memory
  t.ok(found >= 8 * 2 ** 20)
  resources.set('memory', '8MiB')
  t.is(resources.metrics().memory, 8 * 2 ** 20)
  resources.set('memory', 'auto')
  t.is(resources.metrics().memory, found)
  t.throws(() => resources.set('openFiles', 'auto'), { code: 'LEVEL_INVALID_ARGUMENT' })
  t.throws(() => new Resources({ openFiles: 'auto' }), { code: 'LEVEL_INVALID_ARGUMENT' })
  await db.close()
  resources.close()
})

test('options change', async function (t) {
  const db = new Loam(temporary(), { bloomBits: 5 })
  await db.open()
  const users = db.keyspace('users')
  await users.open()
  db.setOption('compression', 'zstd')
  t.same([db.option('compression'), users.option('compression')], ['zstd', 'zstd'])
  users.setOption('compression', 'none')
  t.same([db.option('compression'), users.option('compression')], ['zstd', 'none'])
  db.setOption('writeBufferSize', '1MiB')
  for (const pair of [['writeBufferSize', '2MiB\0'], ['writeBufferSize\0', '2MiB']]) {
    t.throws(() => db.setOption(...pair), { code: 'LEVEL_INVALID_ARGUMENT' })
  }
  db.setOption('l0Compaction', 6)
  t.same([users.option('writeBufferSize'), db.option('l0Compaction'), db.option('bloomBits')],
    ['1048576', '6', '5'])
  for (const [name, value] of [['comparator', 'idb_cmp1'], ['blockSize', 1], ['blocksize', 4096],
    ['l0Stop', 'x']]) {
    t.throws(() => db.setOption(name, value), { code: 'LEVEL_INVALID_ARGUMENT' }, name)
  }
  t.throws(() => users.setOption('cacheSize', 1), { code: 'LEVEL_INVALID_ARGUMENT' })
  t.throws(() => db.option('nothing'), { code: 'LEVEL_INVALID_ARGUMENT' })
  for (const wrong of [undefined, null, 1, {}]) t.throws(() => db.setOption(wrong, 1), TypeError)
  for (const wrong of [undefined, null, {}]) {
    t.throws(() => db.setOption('blockSize', wrong), TypeError)
  }
  await db.close()
  t.throws(() => db.option('blockSize'), { code: 'LEVEL_DATABASE_NOT_OPEN' })
})
