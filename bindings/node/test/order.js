'use strict'

// Writes of a database take effect in the order of their calls, whichever
// methods are used, and reads see the state of the time of their call.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { Loam } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-order-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

let n = 0
async function opened (options) {
  const db = new Loam(path.join(root, String(n++)), options)
  await db.open()
  return db
}

const large = 'v'.repeat(100000) // goes to the pool

test('a synchronous write comes after what is on the pool or waits for it', async (t) => {
  const db = await opened()
  let wrong = 0
  for (let i = 0; i < 200; i++) {
    const pending = [db.put('x', '0', { sync: true })] // begins on the pool at the end of this turn
    await null
    await null
    pending.push(db.put('k', 'first'), db.put('d', 'v'),
      db.batch([{ type: 'put', key: 'b', value: 'first' }]))
    pending.push(db.batch().put('c', 'first').write())
    db.putSync('k', 'second')
    db.delSync('d')
    db.batchSync(
      [{ type: 'put', key: 'b', value: 'second' }, { type: 'put', key: 'c', value: 'second' }])
    await Promise.all(pending)
    const found = await db.getMany(['k', 'd', 'b', 'c'])
    if (found.join() !== 'second,,second,second') wrong++
  }
  t.is(wrong, 0)
  await db.close()
})

test('a synchronous write comes after an earlier clear(), a later write is not cleared',
  async (t) => {
  const db = await opened()
  for (let i = 0; i < 20; i++) {
    const pending = [db.put('old', 'x'), db.clear(), db.put('new', '1')]
    if (i % 2 === 1) db.putSync('sync', '1')
    pending.push(db.put('last', '1'))
    await Promise.all(pending)
    const keys = await db.keys().all()
    t.same(keys, i % 2 === 1 ? ['last', 'new', 'sync'] : ['last', 'new'])
    await db.clear()
  }
  await db.close()
})

test('clear() of a range, a limit and in reverse, between other writes', async (t) => {
  const db = await opened()
  for (let i = 0; i < 9; i++) db.put(String(i), 'x')
  db.clear({ gt: '2', lte: '5' })
  db.put('4', 'y')
  db.clear({ reverse: true, limit: 2 })
  await db.put('9', 'z')
  t.same(await db.iterator().all(), [['0', 'x'], ['1', 'x'], ['2', 'x'], ['4', 'y'], ['6', 'x'],
    ['9', 'z']])
  await db.close()
})

// Applies random writes to the database, by random methods, and to a map.
async function mixed (t, seed) {
  const db = await opened({ writeBufferSize: 65536 })
  const sub = db.sublevel('s')
  await sub.open()
  const model = new Map()
  const random = (limit) => {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff
    return (seed >> 8) % limit
  }
  const pending = []
  const key = () => `k${random(20)}`
  const value = () => random(10) === 0 ? large + random(1000) : String(random(1000000))
  const put = (k, v) => { model.set(k, v) }
  const del = (k) => { model.delete(k) }
  const actions = [
    (k, v, sync) => { pending.push(db.put(k, v, { sync })); put(k, v) },
    (k) => { pending.push(db.del(k)); del(k) },
    (k, v) => { db.putSync(k, v); put(k, v) },
    (k) => { db.delSync(k); del(k) },
    (k, v) => { pending.push(sub.put(k, v)); put(`!s!${k}`, v) },
    (k, v) => { sub.putSync(k, v); put(`!s!${k}`, v) },
    (k, v) => {
      pending.push(db.batch([{ type: 'put', key: k, value: v }, { type: 'del', key: 'k0' }]))
      put(k, v)
      del('k0')
    },
    (k, v) => {
      db.batchSync([{ type: 'put', key: k, value: v }, { type: 'del', key: 'k1' }])
      put(k, v)
      del('k1')
    },
    (k, v) => { pending.push(db.batch().put(k, v).del('k2').write()); put(k, v); del('k2') },
    () => {
      pending.push(db.clear({ gte: 'k3', lt: 'k5' }))
      for (const k of [...model.keys()]) if (k >= 'k3' && k < 'k5') del(k)
    },
    () => { pending.push(db.sync()) }
  ]
  for (let i = 0; i < 1500; i++) {
    actions[random(actions.length)](key(), value(), random(50) === 0)
    for (let j = random(4); j > 0; j--) await null
    if (random(30) === 0) await Promise.all(pending.splice(0))
    if (random(100) === 0) {
      await Promise.all(pending.splice(0))
      const found = await db.iterator().all()
      if (JSON.stringify(found) !== JSON.stringify([...model].sort(([a], [b]) => a < b ? -1 : 1))) {
        return false
      }
    }
  }
  await Promise.all(pending)
  await db.close()
  return true
}

test('random writes by all methods', async (t) => {
  const set = process.env.LOAM_SEED || (process.env.LOAM_T2 === '1' ? 'random' : '1')
  const seed = (set === 'random' ? Date.now() : Number(set)) & 0xffffff
  for (let i = 0; i < 6; i++) t.ok(await mixed(t, seed + i), `seed ${seed + i}`)
})

test('promises settle, and write events come, in the order of the calls', async (t) => {
  const db = await opened()
  const settled = []
  const note = (name) => () => settled.push(name)
  const pending = [db.put('a', '1', { sync: true }).then(note('a'))]
  await null
  await null
  pending.push(db.put('b', '1').then(note('b')))
  db.putSync('c', '1')
  pending.push(db.put('d', '1').then(note('d')))
  await Promise.all(pending)
  t.same(settled, ['a', 'b', 'd'])
  await db.close()
})

test('a write that fails does not fail its neighbours', async (t) => {
  const db = await opened()
  const other = await opened()
  const foreign = other.sublevel('s')
  const results = await Promise.allSettled([
    db.put('a', '1'),
    db.batch([{ type: 'put', key: 'x', value: '1', sublevel: foreign }]),
    db.put('b', '2')
  ])
  t.same(results.map((r) => r.status), ['fulfilled', 'rejected', 'fulfilled'])
  t.is(results[1].reason.code, 'LEVEL_INVALID_ARGUMENT')
  t.same(await db.keys().all(), ['a', 'b'])
  await other.close()
  await db.close()
})

test('large writes of one turn are no single batch', async (t) => {
  const db = await opened()
  const value = Buffer.alloc(9 * 1024 * 1024, 97)
  const options = { valueEncoding: 'buffer' }
  await Promise.all(Array.from({ length: 6 }, (_, i) => db.put(`k${i}`, value, options)))
  db.batch([{ type: 'put', key: 'small', value: 'x' }])
  await db.batch(
    Array.from(
      { length: 3 }, (_, i) => ({ type: 'put', key: `b${i}`, value, valueEncoding: 'buffer' })))
  t.is((await db.keys().all()).length, 10)
  t.ok(value.equals(await db.get('k5', options)))
  await db.close()
})

test('reads see what was written before their call, and nothing later', async (t) => {
  // Nothing is found in memory: each table is read from disk.
  const db = await opened({ cacheSize: 0, writeBufferSize: 65536 })
  for (let i = 0; i < 2000; i++) db.put(String(i), `${i} old`.repeat(20))
  await db.compactRange('', '~')
  const keys = Array.from({ length: 200 }, (_, i) => String(i * 10))
  const reads = keys.map((k) => db.get(k))
  const many = db.getMany(keys)
  const has = db.hasMany(keys)
  for (const k of keys) db.delSync(k)
  const later = db.getMany(keys)
  t.ok((await Promise.all(reads)).every((v, i) => v === `${keys[i]} old`.repeat(20)), 'get')
  t.ok((await many).every((v, i) => v === `${keys[i]} old`.repeat(20)), 'getMany')
  t.ok((await has).every((found) => found), 'hasMany')
  t.ok((await later).every((v) => v === undefined), 'after the writes')
  await db.put('0', 'acknowledged')
  t.is(await db.get('0'), 'acknowledged')
  t.is(db.getSync('0'), 'acknowledged')
  await db.close()
})
