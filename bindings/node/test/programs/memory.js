'use strict'

// Run with fail.c preloaded: every allocation of the addon fails once in each of
// these operations. Prints the operations and how many failures each had, and
// what went wrong.

const { Loam, Cache } = require('../..')
const fail = require(process.argv[2])

const key = 'k'.repeat(2000) // longer than what fits on the stack
const large = 'v'.repeat(200000)
const wrong = []
const failures = {}

// Whether a write took effect must agree with what its promise said.
const operations = {
  put: async (db, i) => { await db.put(`p${i}`, '1'); return db.getSync(`p${i}`) === '1' },
  'long put': async (db, i) => {
    await db.put(key + i, large)
    return db.getSync(key + i) === large
  },
  'sync put': async (db, i) => {
    await db.put(`s${i}`, '1', { sync: true })
    return db.getSync(`s${i}`) === '1'
  },
  putSync: async (db, i) => { db.putSync(key + i, '2'); return db.getSync(key + i) === '2' },
  del: async (db) => { await db.del(key + '0'); return db.getSync(key + '0') === undefined },
  batch: async (db, i) => {
    await db.batch([{ type: 'put', key: `b${i}`, value: large }])
    return db.getSync(`b${i}`) === large
  },
  clear: async (db, i) => {
    await db.clear({ gte: 'b', lt: 'c' })
    return db.getSync(`b${i}`) === undefined
  },
  sync: async (db) => { await db.sync(); return true },
  get: async (db) => await db.get('000') === '0',
  'get of a long key': async (db) => await db.get(key) === undefined,
  'uncached get': async (db) =>
    (await Promise.all(
      ['010', '020', '030'].map((k) => db.get(k, { fillCache: false })))).join() === '10,20,30',
  getMany: async (db) => (await db.getMany(['001', 'none', '002'])).join() === '1,,2',
  'getMany of buffers': async (db) =>
    String(await db.getMany(['001', '002'], { valueEncoding: 'buffer' })) === '1,2',
  has: async (db) => await db.has('001') && !await db.has('none'),
  hasMany: async (db) => (await db.hasMany(['001', 'none'])).join() === 'true,false',
  iterator: async (db) =>
    (await db.iterator({ gte: '000', lt: '100', highWaterMarkBytes: 100 }).all()).length === 100,
  next: async (db) => {
    let n = 0
    for await (const [k] of db.iterator({ gte: '000', lt: '010' })) n += k.length
    return n === 30
  },
  iteratorSync: async (db) => db.iteratorSync(
    { gte: '000', lt: '100', highWaterMarkBytes: 100 }).nextv(100).length > 0,
  seek: async (db) => {
    const iterator = db.iterator()
    try {
      iterator.seek('005')
      return (await iterator.next())[0] === '005'
    } finally {
      await iterator.close()
    }
  },
  snapshot: async (db) => { const snapshot = db.snapshot(); await snapshot.close(); return true },
  upkeep: async (db) => { await db.flush(); await db.compact('0', '1'); return true },
  sizes: async (db) => (await db.approximateSizes([['a', 'b'], ['c', 'd']])).length === 2,
  reports: async (db) => typeof (await db.metrics()) === 'object' &&
    typeof (await db.recoveryReport()) === 'object' && db.getProperty('leveldb.stats') !== '',
  'new database': async (db, i) => {
    const other = new Loam(`${db.location}-${i}`, { logger: () => {}, cache: new Cache(100000),
      blockSize: 4096, multithreading: true })
    await other.open()
    await other.close()
    return true
  }
}

async function main (location) {
  const db = new Loam(location)
  await db.open()
  for (let i = 0; i < 200; i++) await db.put(String(i).padStart(3, '0'), String(i))
  await db.compactRange('', '~')
  for (const [name, run] of Object.entries(operations)) {
    let i = 0
    for (; i < 100; i++) {
      let right, err
      fail.arm(i)
      try {
        right = await run(db, i)
      } catch (e) {
        err = e
      }
      const fired = fail.disarm()
      const cause = err?.cause ?? err
      if (err === undefined ? !right : !(cause instanceof Error) ||
        cause.code !== 'LEVEL_NO_MEMORY') wrong.push(`${name} ${i}: ${cause?.stack ?? right}`)
      if (!fired) break
    }
    if (i === 100) wrong.push(`${name}: no end`)
    failures[name] = i
  }
  fail.arm(0)
  const first = await db.close().catch((err) => err.cause)
  if (fail.disarm() && first?.code !== 'LEVEL_NO_MEMORY') wrong.push(`close: ${first}`)
  await db.close()
  await db.open()
  if (await db.get('199') !== '199') wrong.push('after reopening')
  await db.close()
  console.log(JSON.stringify({ failures, wrong }))
}

main(process.argv[3])
