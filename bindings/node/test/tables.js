'use strict'

const fs = require('fs')
const os = require('os')
const path = require('path')
const test = require('tape')
const { Loam } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-tables-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

test('compression by level', async (t) => {
  const text =
    'a value of words that come more than once, of words that come more than once; '.repeat(20)
  for (const [i, compression] of ['none,zstd', ['none', 'zstd']].entries()) {
    const db = new Loam(path.join(root, `levels${i}`), { compression, disableCompaction: true })
    await db.open()
    for (let round = 0; round < 2; round++) {
      const keys = Array.from({ length: 200 }, (_, n) => String(n).padStart(4, '0'))
      await db.batch(keys.map((key) => ({ type: 'put', key, value: text })))
      await db.flush()
    }
    const { levels } = await db.metrics()
    t.ok(levels[0].bytes > 5 * levels[6].bytes && levels[6].bytes > 0, 'each level has its own')
    t.equal(await db.get('0007'), text)
    await db.close()
  }
  const error = await new Loam(path.join(root, 'wrong'),
    { compression: ['none', 'lz4'] }).open().catch((error) => error)
  t.match(String(error.cause), /compression/)
})

test('prefix filters', async (t) => {
  for (const format of ['native', 'leveldb']) {
    const db = new Loam(path.join(root, format), { prefixLength: 4, compactionDirectIo: true,
      l0Compaction: 100, format })
    await db.open()
    for (const users of [['anna', 'carl'], ['bert']]) {
      for (const user of users) await db.put(`${user}/name`, user)
      await db.flush()
    }
    t.same(await db.keys({ gte: 'bert', lt: 'beru' }).all(), ['bert/name'])
    t.equal((await db.metrics()).prefix_skips, 1)
    t.same(await db.keys({ gte: 'anna', lt: 'annb', reverse: true }).all(), ['anna/name'])
    await db.compact()
    const metrics = await db.metrics()
    t.ok(metrics.direct_tables + metrics.not_direct_tables > 0)
    await db.close()
  }
})

test('tables of a keyspace', async (t) => {
  const db = new Loam(path.join(root, 'spaces'), { l0Compaction: 100 })
  await db.open()
  const space = db.keyspace('users', { compression: ['none', 'zstd'], prefixLength: 4 })
  await space.open()
  for (const users of [['anna', 'carl'], ['bert']]) {
    for (const user of users) await space.put(`${user}/name`, user)
    await space.flush()
  }
  t.same(await space.keys({ gte: 'bert', lt: 'beru' }).all(), ['bert/name'])
  t.equal((await space.metrics()).prefix_skips, 1)
  await db.close()
})
