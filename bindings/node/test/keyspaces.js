'use strict'

// Keyspaces: Runs abstract-level's suite on a keyspace, and tests the methods that only keyspaces
// have.

const test = require('tape')
const suite = require('abstract-level/test')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { Loam, Keyspace } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-keyspaces-'))
let n = 0
const fresh = (options) => new Loam(path.join(root, String(n++)), { format: 'native', ...options })

// The suite closes what the factory made; what lies beneath is left to the end of the process.
const databases = []
const location = () => {
  if (databases.length === 0 || databases.at(-1).made > 100) {
    databases.push({ db: fresh(), made: 0 })
  }
  return databases.at(-1)
}

suite({
  test,
  factory: (options) => {
    const at = location()
    return at.db.keyspace(`space ${at.made++}`, options)
  }
})

test('keyspaces are key spaces of their own', async (t) => {
  const db = fresh({ valueEncoding: 'json' })
  const users = db.keyspace('users', { valueEncoding: 'json' })
  t.ok(users instanceof Keyspace && users instanceof Loam && users.db === db &&
    users.name === 'users', 'is a database')
  await users.put('a', { of: 'users' }) // opens by itself
  await db.put('a', { of: 'default' })
  t.same(await users.get('a'), { of: 'users' })
  t.same(db.getSync('a'), { of: 'default' })
  t.same(db.keyspaces(), ['default', 'users'])
  users.putSync('b', 1)
  users.batchSync([{ type: 'put', key: 'c', value: 2 }, { type: 'del', key: 'b' }])
  t.same(users.iteratorSync().all(), [['a', { of: 'users' }], ['c', 2]])
  const below = users.sublevel('below', { valueEncoding: 'json' })
  await below.put('d', 3)
  t.is(await users.get('!below!d'), 3, 'sublevels are prefixes')
  await users.clear()
  t.same(await users.keys().all(), [])
  t.same(await db.keys().all(), ['a'], 'clear() clears one keyspace')
  await users.put('z', 0)
  await users.flush()
  t.ok((await users.metrics()).disk_bytes > 0)
  await users.clear()
  await db.close()
  t.is(users.status, 'closed', 'is closed with its database')
  await db.open()
  await users.open()
  t.same(await users.keys().all(), [])
  await db.close()
})

test('a batch and a snapshot go over several keyspaces', async (t) => {
  const db = fresh()
  const [a, b] = ['a', 'b'].map((name) => db.keyspace(name))
  await Promise.all([a.open(), b.open()])
  await db.batch(
    [{ type: 'put', key: 'k', value: '0' }, { type: 'put', key: 'k', value: '1', keyspace: a },
      { type: 'put', key: 'k', value: '2', keyspace: b }])
  const snapshot = a.snapshot()
  db.batchSync(
    [{ type: 'del', key: 'k', keyspace: a }, { type: 'put', key: 'k', value: '3', keyspace: b },
      { type: 'del', key: 'k', keyspace: db }])
  t.same(await Promise.all([db, a, b].map((s) => s.get('k'))), [undefined, undefined, '3'])
  t.same(await Promise.all([db, a, b].map((s) => s.get('k', { snapshot }))), ['0', '1', '2'])
  t.same(await b.iterator({ snapshot }).all(), [['k', '2']])
  await b.batch().put('chained', '1', { keyspace: a }).write()
  await b.batch([{ type: 'put', key: 'there', value: '1', keyspace: db },
    { type: 'put', key: 'here', value: '1', keyspace: b }])
  b.batchSync([{ type: 'put', key: 'x', value: '1' }, { type: 'del', key: 'here', keyspace: db },
    { type: 'put', key: 'y', value: '1', ttl: 3600, keyspace: db }])
  t.same(await Promise.all([db, b].map((s) => s.keys().all())),
    [['there', 'y'], ['here', 'k', 'x']])
  await db.clear()
  t.is(await a.get('chained'), '1')
  await snapshot.close()
  const other = fresh()
  await other.open()
  for (const keyspace of [other, other.keyspace('a'), {}, 'a']) {
    const error = await db.batch([{ type: 'del', key: 'k', keyspace }]).catch((error) => error)
    t.is(error?.code, 'LEVEL_INVALID_ARGUMENT', error?.message)
  }
  await Promise.all([db.close(), other.close()])
})

test('what a keyspace refuses', async (t) => {
  const code = (promise) => Promise.resolve(promise).then(() => undefined, (error) =>
    error.cause?.code ?? error.code)
  const db = fresh()
  const users = db.keyspace('users')
  await users.open()
  t.is(await code(db.keyspace('none', { createIfMissing: false }).open()), 'LEVEL_NO_KEYSPACE')
  t.is(await code(db.keyspace('').open()), 'LEVEL_INVALID_ARGUMENT')
  t.is(await code(db.keyspace('x'.repeat(256)).open()), 'LEVEL_INVALID_ARGUMENT')
  t.is(await code(db.keyspace('a\0b').open()), 'LEVEL_INVALID_ARGUMENT')
  t.is(await code(db.keyspace('a\ud800').open()), 'LEVEL_INVALID_ARGUMENT')
  t.is(await code(db.dropKeyspace('a\ud800')), 'LEVEL_INVALID_ARGUMENT')
  t.is(await code(db.keyspace('users', { comparator: 'idb_cmp1' }).open()),
    'LEVEL_COMPARATOR_MISMATCH')
  t.throws(() => db.keyspace(), TypeError)
  t.is(await code(db.dropKeyspace('default')), 'LEVEL_INVALID_ARGUMENT')
  await db.dropKeyspace('users')
  t.is(await code(db.dropKeyspace('users')), 'LEVEL_NO_KEYSPACE')
  t.is(await code(users.put('a', 'b')), 'LEVEL_NO_KEYSPACE')
  t.is(await code(users.get('a')), 'LEVEL_NO_KEYSPACE')
  t.is(await code(users.iterator().all()), 'LEVEL_NO_KEYSPACE')
  const again = db.keyspace('users')
  t.same(await again.keys().all(), [])
  await db.close()
  t.is(await code(again.open()), 'LEVEL_DATABASE_NOT_OPEN', 'not without its database')
  const old = new Loam(path.join(root, 'leveldb'), { format: 'leveldb' })
  t.is(await code(old.keyspace('users').open()), 'LEVEL_NEEDS_NATIVE')
  await old.close()
})

test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

test('a database closes with keyspaces that are being opened', async (t) => {
  const location = path.join(root, 'opening')
  for (let ticks = 0; ticks < 30; ticks++) {
    const db = new Loam(location)
    await db.open()
    const users = db.keyspace('users')
    const put = users.put('a', 'b').catch((err) => err)
    const opening = users.open().catch((err) => err)
    for (let i = 0; i < ticks; i++) await null
    await db.close()
    await Promise.all([put, opening])
    if (users.status !== 'closed') t.fail(`it is ${users.status} after ${ticks} ticks`)
  }
  t.pass('none stays open')
})
