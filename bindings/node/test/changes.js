'use strict'

// Feeds of changes.

const test = require('tape')
const { mkdtempSync, rmSync } = require('fs')
const { join } = require('path')
const { tmpdir } = require('os')
const { Loam } = require('..')

const root = mkdtempSync(join(tmpdir(), 'loam-changes-'))
test.onFinish(() => rmSync(root, { recursive: true, force: true }))
const temporary = () => join(mkdtempSync(join(root, 'each-')), 'db')
const keys = (change) => change.operations.map(({ type, key }) => `${type} ${key}`)
const refused = (t, promise, code) => promise.then(() => t.fail('it is answered'), (err) =>
  t.is(err.code ?? err.name, code))

test('a feed of changes', async function (t) {
  const location = temporary()
  const options = { walRetentionBytes: 1 << 20 }
  let db = new Loam(location, options)
  await db.open()
  const feed = db.changes()
  t.is(feed.position, 1)
  t.is(await feed.poll(), undefined)
  await db.put('a', '1')
  await db.batch([{ type: 'put', key: 'b', value: '2' }, { type: 'del', key: 'a' }])
  await db.put('c', '3', { ttl: 1000 })
  const seen = [await feed.next(), await feed.next(), await feed.next()]
  t.same(seen.map(keys), [['put a'], ['put b', 'del a'], ['put c']])
  t.same(seen.map(({ seq, next }) => [seq, next]), [[1, 2], [2, 4], [4, 5]])
  const [put] = seen[2].operations
  t.is(put.value.toString(), '3')
  t.is(put.keyspace, 'default')
  t.ok(Math.abs(put.expires - Date.now() - 1e6) < 60e3, 'the deadline')
  t.is(seen[1].operations[1].value, undefined)
  t.is(feed.position, 5)
  // A wait ends with a write.
  const waiting = feed.next()
  await db.put('d', '')
  t.same(keys(await waiting), ['put d'])
  const count = 1000
  for (let i = 0; i < count; i++) db.putSync(`k${i}`, '')
  let n = 0
  for await (const change of db.changes({ from: feed.position })) {
    n += change.operations.length
    if (change.next === 6 + count) break
  }
  t.is(n, count)
  await db.close()
  await refused(t, feed.poll(), 'LEVEL_DATABASE_NOT_OPEN')
  db = new Loam(location, options)
  await db.open()
  const again = db.changes({ from: 5 + count })
  t.same(keys(await again.next()), [`put k${count - 1}`])
  t.throws(() => db.changes({ from: 100000 }), (err) => err.code === 'LEVEL_GAP')
  t.throws(() => db.changes({ from: -1 }), TypeError)
  await db.close()
})

test('a feed of what is durable', async function (t) {
  const db = new Loam(temporary())
  await db.open()
  const feed = db.changes({ durable: true })
  await db.put('a', '')
  t.is(await feed.poll(), undefined)
  await db.sync()
  t.same(keys(await feed.poll()), ['put a'])
  await db.close()
})

test('changes that are read when their feed is closed', async (t) => {
  const db = new Loam(temporary())
  const users = db.keyspace('users')
  await users.put('a', '1')
  await db.batch([{ type: 'del', key: 'b' }, { type: 'put', key: 'c', value: '', ttl: 60 },
    { type: 'del', key: 'd', keyspace: users }])
  await db.put('e', '')
  const feed = db.changes()
  const changes = [await feed.next(), await feed.next()]
  await feed.close()
  t.same(changes.map(({ operations }) => operations.map(
    ({ keyspace, key }) => `${keyspace} ${key}`)), [['users a'],
    ['default b', 'default c', 'users d']])
  t.is(await feed.next(), undefined)
  await refused(t, feed.poll(), 'LEVEL_DATABASE_NOT_OPEN')
  await db.close()
})

test('waits for changes end', async function (t) {
  const db = new Loam(temporary())
  await db.open()
  const feed = db.changes()
  const closed = feed.next()
  feed.close()
  t.is(await closed, undefined, 'by close')
  const aborted = new AbortController()
  const other = db.changes({ signal: aborted.signal })
  const stopped = refused(t, other.next(), 'LEVEL_ABORTED')
  aborted.abort()
  await stopped
  t.throws(() => db.changes({ signal: {} }), TypeError)
  const last = db.changes()
  const ended = last.next()
  await db.close()
  t.is(await ended, undefined, 'by the end of the database')
})

test('a feed of a follower', async function (t) {
  const location = temporary()
  const db = new Loam(location)
  await db.open()
  const follower = await Loam.follow(location, { followInterval: '1ms' })
  const feed = follower.changes()
  for (let i = 0; i < 10; i++) {
    await db.put(`k${i}`, '')
    t.same(keys(await feed.next()), [`put k${i}`])
  }
  t.throws(() => follower.changes({ durable: true }), (err) =>
    err.code === 'LEVEL_INVALID_ARGUMENT' || err instanceof TypeError)
  await follower.close()
  const slow = await Loam.follow(location)
  const other = slow.changes({ from: 11 })
  await db.put('a', '')
  t.is(await other.poll(), undefined)
  await slow.catchUp()
  t.same(keys(await other.poll()), ['put a'])
  await slow.close()
  await db.close()
})

test('calls for a feed beside each other', async function (t) {
  const db = new Loam(temporary())
  await db.open()
  const feed = db.changes()
  const waits = [feed.next(), feed.next(), feed.next()]
  t.is(await feed.poll(), undefined, 'a wait keeps no other call')
  for (const key of ['a', 'b', 'c', 'd']) await db.put(key, '')
  const seen = await Promise.all(waits)
  t.same(seen.map(({ seq }) => seq).sort(), [1, 2, 3], 'each change goes to one')
  t.same(keys(await feed.next()), ['put d'])
  await db.close()
})

// Answers of the native side wait for release(), in the order that it is given.
function held () {
  const binding = require('../binding')
  const answers = []
  const changesNext = (...args) => {
    const answer = native.changesNext(...args)
    return new Promise(
      (resolve, reject) => answers.push({ answer, release: () => answer.then(resolve, reject) }))
  }
  const { native } = binding
  const file = require.resolve('../changes')
  delete require.cache[file]
  binding.native = Object.create(native, { changesNext: { value: changesNext } })
  const restore = () => {
    delete require.cache[file]
    binding.native = native
  }
  return { answers, restore }
}

test('the position while a change is on its way', async function (t) {
  const db = new Loam(temporary())
  await db.open()
  const { answers, restore } = held()
  try {
    const feed = db.changes()
    for (const [how, position] of [['poll', 1], ['next', 2]]) {
      if (how === 'poll') await db.put('a', how)
      const change = feed[how]()
      if (how === 'next') await db.put('a', how)
      await answers.at(-1).answer
      t.is(feed.position, position, 'it was not handed out')
      answers.at(-1).release()
      t.is((await change).seq, position)
      t.is(feed.position, position + 1)
    }
    await feed.close()
    t.throws(() => feed.position, (err) => err.code === 'LEVEL_DATABASE_NOT_OPEN')
  } finally {
    restore()
    await db.close()
  }
})

test('changes keep their order when calls come beside each other', async function (t) {
  const db = new Loam(temporary())
  await db.open()
  const { answers, restore } = held()
  try {
    for (const [first, from] of [['next', 1], ['poll', 4]]) {
      const feed = db.changes({ from })
      answers.length = 0
      await db.put('one', first)
      await db.put('two', first)
      const one = feed[first]()
      await answers[0].answer
      await db.put('three', first)
      const other = feed.poll()
      if (answers.length > 1) await answers[1].answer
      for (const { release } of [...answers].reverse()) release()
      const seen = [await one, await other].filter((change) => change !== undefined)
      while (seen.length < 3) {
        const next = feed.next()
        answers.at(-1).release()
        seen.push(await next)
      }
      t.same(seen.map(keys), [['put one'], ['put two'], ['put three']])
      await feed.close()
    }
  } finally {
    restore()
    await db.close()
  }
})
