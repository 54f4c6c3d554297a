'use strict'

// Databases that another process writes.

const test = require('tape')
const { mkdtempSync, rmSync } = require('fs')
const { join } = require('path')
const { tmpdir } = require('os')
const { Loam } = require('..')

const root = mkdtempSync(join(tmpdir(), 'loam-follower-'))
test.onFinish(() => rmSync(root, { recursive: true, force: true }))
const temporary = () => join(mkdtempSync(join(root, 'each-')), 'db')
const failure = (promise) => promise.then(() => undefined, (err) => err)

test('a follower catches up', async (t) => {
  const location = temporary()
  t.is((await failure(Loam.follow(location))).cause.code, 'LEVEL_DATABASE_MISSING')
  const db = new Loam(location)
  await db.put('k', '1')
  const follower = await Loam.follow(location)
  const before = follower.snapshot()
  t.same(await follower.lag(), { operations: 0, seconds: 0 })
  await db.put('k', '2')
  await db.keyspace('users').put('ann', '3')
  t.is((await follower.lag()).operations, 2)
  t.is(await follower.get('k'), '1')
  await follower.catchUp()
  t.is(await follower.get('k'), '2')
  t.is(await follower.get('k', { snapshot: before }), '1')
  t.is(await follower.keyspace('users').get('ann'), '3')
  t.same(await follower.lag(), { operations: 0, seconds: 0 })
  t.is((await failure(follower.put('k', '4'))).code, 'LEVEL_READONLY')
  t.ok(await failure(db.catchUp()))
  t.ok(await failure(db.lag()))
  t.is((await failure(follower.catchUp({ signal: AbortSignal.abort() }))).code, 'LEVEL_ABORTED')
  await before.close()
  await follower.close()
  await db.close()
})

test('a follower catches up by itself', async (t) => {
  const location = temporary()
  const db = new Loam(location)
  await db.open()
  const follower = await Loam.follow(location, { followInterval: '5ms' })
  const feed = follower.changes()
  await db.put('k', '1')
  t.is((await feed.next()).next, 2)
  t.is(await follower.get('k'), '1')
  await follower.close()
  await db.close()
})

test('reads that wait for a follower keep their keys', async (t) => {
  const location = temporary()
  const db = new Loam(location)
  await db.batch([...'abc'].map((key) => ({ type: 'put', key, value: key })))
  const follower = await Loam.follow(location)
  const raw = { keyEncoding: 'buffer' }
  const changed = (read) => {
    const keys = ['a', 'c'].map((key) => Buffer.from(key))
    const result = read(...keys)
    for (const key of keys) key[0] = 0x62
    return result
  }
  const snapshot = follower.snapshot()
  t.is(await changed((key) => follower.get(key, { ...raw, snapshot })), 'a')
  await snapshot.close()
  const other = follower.snapshot()
  t.same(await changed((...keys) => follower.getMany(keys, { ...raw, snapshot: other })),
    ['a', 'c'])
  await other.close()
  t.same(await changed((gte, lt) => follower.values({ ...raw, gte, lt })).all(), ['a', 'b'])
  const it = changed((_, key) => {
    const it = follower.values(raw)
    it.seek(key)
    return it
  })
  t.same(await it.all(), ['c'])
  await follower.close()
  await db.close()
})

// Resolves after three intervals of a follower, which the engine's clock measures.
const intervals = () => new Promise((resolve) => setTimeout(resolve, 60))

// A follower that was not read for an interval catches up before the next read: on the pool.
test('reads of a follower that is behind', async (t) => {
  const location = temporary()
  const db = new Loam(location)
  const users = db.keyspace('users')
  await db.put('ann', '0')
  await users.put('ann', '0')
  const follower = await Loam.follow(location, { followInterval: '20ms' })
  const theirs = follower.keyspace('users')
  await theirs.open()
  let n = 0
  // Each of the readers is the first one after a while, and shows what was written before.
  const readers = {
    entries: async (place) => (await place.iterator().all()).at(-1)[1],
    keys: async (place) => place.get((await place.keys({ reverse: true, limit: 1 }).all())[0]),
    values: async (place) => (await place.values().all()).at(-1),
    sought: async (place) => {
      const iterator = place.iterator()
      iterator.seek('ann')
      const [, value] = await iterator.next()
      iterator.seek('b')
      t.is(await iterator.next(), undefined)
      await iterator.close()
      return value
    },
    snapshot: async (place) => {
      const snapshot = place.snapshot()
      const values = await Promise.all([
        place.get('ann', { snapshot }), place.getMany(['ann'], { snapshot }),
          place.iterator({ snapshot }).all(), place.has('ann', { snapshot })
      ])
      const closing = [snapshot.close()]
      t.is((await failure(place.get('ann', { snapshot }))).code, 'LEVEL_SNAPSHOT_NOT_OPEN')
      await Promise.all(closing)
      t.same(values, [values[0], [values[0]], [['ann', values[0]]], true])
      return values[0]
    },
    now: async (place) => {
      const snapshot = place.snapshot()
      const later = place.get('ann', { snapshot })
      const [[, value]] = place.iteratorSync({ snapshot }).all()
      t.is(place.getSync('ann', { snapshot }), value)
      t.is(await later, value)
      await snapshot.close()
      return value
    },
    transaction: (place) => place.transaction(async (tx) => {
      t.is((await tx.iterator().all())[0][1], await tx.get('ann'))
      return tx.get('ann')
    }),
    many: async (place) => (await place.getMany(['ann']))[0],
    sync: async (place) => place.iteratorSync().all()[0][1]
  }
  for (const [name, read] of Object.entries(readers)) {
    for (const [source, place] of [[db, follower], [users, theirs]]) {
      await intervals()
      await source.put('ann', `${++n}`)
      let value
      // On a busy machine an interval may not have passed since the last read.
      while ((value = await read(place)) !== `${n}`) {
        t.ok(Number(value) < n, `${name}: ${value}`)
        await intervals()
      }
      t.is(value, `${n}`, name)
    }
  }
  // Work that is abandoned at once, or ends with the database, releases everything.
  for (let i = 0; i < 20; i++) {
    const iterator = follower.iterator()
    const snapshot = follower.snapshot()
    await Promise.all([iterator.close(), snapshot.close()])
  }
  const rest = [follower.iterator().all(), theirs.keys().all(),
    follower.transaction((tx) => tx.get('ann'))].map(failure)
  follower.snapshot()
  follower.iterator()
  await follower.close()
  for (const err of await Promise.all(rest)) {
    t.ok(err === undefined || err.code.startsWith('LEVEL_'), String(err))
  }
  await db.close()
})
