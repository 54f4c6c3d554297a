'use strict'

// The same methods on databases, sublevels and keyspaces, transactions over all of them, and what
// they refuse.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { Loam, prefixFilter } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-places-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))
let n = 0
const fresh = (options) => new Loam(path.join(root, String(n++)),
  { format: 'native', mergeOperator: 'append', ...options })

async function rejection (promise) {
  return promise.then(() => ({ code: 'none' }), (err) => err)
}

function thrown (f) {
  try {
    f()
  } catch (err) {
    return err
  }
}

async function collect (iterable) {
  const all = []
  for await (const entry of iterable) all.push(entry)
  return all
}

// A database, a sublevel, a sublevel of that, a keyspace and a sublevel of it.
function places (db) {
  const keyspace = db.keyspace('k', { mergeOperator: 'append' })
  return { database: db, sublevel: db.sublevel('s'), nested: db.sublevel('t').sublevel('u'),
    keyspace, 'sublevel of a keyspace': keyspace.sublevel('v') }
}

test('every place has every method', async (t) => {
  const db = fresh()
  const all = places(db)
  for (const [name, place] of Object.entries(all)) {
    for (const method of ['merge', 'mergeSync', 'deleteRange', 'deleteRangeSync', 'putSync',
      'delSync', 'batchSync', 'iteratorSync', 'getSync',
      'compareAndSwap', 'putIfAbsent', 'transaction', 'approximateSize', 'approximateSizes',
        'compact', 'sync', 'flush', 'clear', 'snapshot']) {
      t.is(typeof place[method], 'function', `${name}.${method}`)
    }
  }
  await db.close()
})

for (const name of ['database', 'sublevel', 'nested', 'keyspace', 'sublevel of a keyspace']) {
  test(`methods of a ${name}`, async (t) => {
    const db = fresh()
    await db.open()
    const place = places(db)[name]
    await place.open()
    const outside = name === 'database' ? [] : [['~', 'beside']]
    if (outside.length > 0) await db.batch([{ type: 'put', key: '~', value: 'beside' }])
    const entries = () => [...place.iteratorSync()]
    await place.put('a', '1')
    await place.merge('a', '2')
    place.mergeSync('a', '3')
    t.is(await place.get('a'), '1,2,3')
    t.is(place.getSync('a'), '1,2,3')
    place.batchSync(
      [{ type: 'put', key: 'b', value: '1' }, { type: 'merge', key: 'b', value: '2' },
        { type: 'put', key: 'c', value: '1' }])
    t.same(entries(), [['a', '1,2,3'], ['b', '1,2'], ['c', '1']])
    place.deleteRangeSync('b', 'c')
    t.same(entries(), [['a', '1,2,3'], ['c', '1']])
    await place.deleteRange('c', 'd', { sync: true })
    t.same(entries(), [['a', '1,2,3']])
    t.is(thrown(() => place.deleteRangeSync('b', 'a')).code, 'LEVEL_INVALID_ARGUMENT')
    t.is((await rejection(place.deleteRange('b', 'a'))).code, 'LEVEL_INVALID_ARGUMENT')

    t.is(await place.putIfAbsent('n', '1'), true)
    t.is(await place.putIfAbsent('n', '2'), false)
    t.is(await place.compareAndSwap('n', '1', '2'), true)
    t.is(await place.compareAndSwap('n', '1', '3'), false)
    t.is(await place.compareAndSwap('n', '2', undefined), true)
    t.is(await place.get('n'), undefined)

    for (let i = 0; i < 300; i++) place.putSync(`x${i}`, 'v'.repeat(1000))
    await place.sync()
    await place.flush()
    await place.compact('x', 'y')
    await place.compact()
    t.ok(await place.approximateSize('x', 'y') > 1000, 'takes space')
    t.is((await place.approximateSizes([['y', 'z'], ['x', null]])).length, 2)

    await place.transaction(async (tx) => {
      await tx.clear({ gte: 'x' })
      await tx.put('b', '1')
      await tx.merge('b', '2')
      await tx.put('cc', 'x')
      await tx.deleteRange('c', 'd')
      t.same(await collect(tx.iterator()), [['a', '1,2,3'], ['b', '1,2']])
      t.same(await collect(tx.keys({ reverse: true })), ['b', 'a'])
      t.same(await collect(tx.values({ gt: 'a', lt: null })), ['1,2'])
      t.same([await tx.has('b'), await tx.has('c'), await tx.get('a')], [true, false, '1,2,3'])
    })
    t.same(entries(), [['a', '1,2,3'], ['b', '1,2']])
    await place.clear()
    t.same(entries(), [])
    t.same(outside.length > 0 ? await collect(db.iterator({ gte: '~' })) : [], outside,
      'nothing else was touched')
    await db.close()
  })
}

test('one transaction over all places', async (t) => {
  const db = fresh({ valueEncoding: 'json' })
  await db.open()
  const sub = db.sublevel('s', { valueEncoding: 'json' })
  const users = db.keyspace('users', { keyEncoding: 'json', valueEncoding: 'json' })
  const below = users.sublevel('b', { valueEncoding: 'utf8' })
  await db.transaction(async (tx) => {
    await tx.put('a', { is: 'database' })
    await tx.put('a', { is: 'sublevel' }, { sublevel: sub })
    await tx.put([1], { is: 'keyspace' }, { keyspace: users })
    await tx.put('a', 'below', { sublevel: below })
    t.same(await tx.getMany(['a'], { sublevel: sub }), [{ is: 'sublevel' }])
    t.same(await collect(tx.iterator({ sublevel: below })), [['a', 'below']])
    t.same(await collect(tx.iterator({ keyspace: users, gte: [0] })), [[[1], { is: 'keyspace' }]])
    for (const sublevel of [db, {}, 'sub', users]) {
      t.is((await rejection(tx.put('a', '1', { sublevel }))).code, 'LEVEL_INVALID_ARGUMENT')
    }
    await tx.put('gone', 1, { sublevel: sub })
    await tx.clear({ sublevel: sub, gt: 'b' })
  })
  t.same(await sub.get('a'), { is: 'sublevel' })
  t.same(await sub.keys().all(), ['a'])
  t.is(await below.get('a'), 'below')
  await sub.transaction(async (tx) => {
    await tx.put('b', 1)
    await tx.put('b', 2, { keyspace: db })
  })
  t.same([await sub.get('b'), await db.get('b')], [1, 2])
  const other = fresh()
  await other.open()
  await db.transaction(async (tx) => {
    t.is((await rejection(tx.put('a', '1', { sublevel: other.sublevel('s') }))).code,
      'LEVEL_INVALID_ARGUMENT')
  })
  await other.close()
  await db.close()
})

test('iterators of transactions', async (t) => {
  const db = fresh()
  await db.batch(
    Array.from({ length: 3000 }, (_, i) =>
      ({ type: 'put', key: String(i).padStart(4, '0'), value: 'v' })))
  for (const place of [db, db.sublevel('q')]) {
    if (place !== db) {
      await place.batch(
        Array.from({ length: 3000 }, (_, i) =>
          ({ type: 'put', key: String(i).padStart(4, '0'), value: 'v' })))
    }
    await place.transaction(async (tx) => {
      const it = tx.iterator({ lt: '3' })
      await tx.put('0001', 'later')
      t.same(await it.next(), { done: false, value: ['0000', 'v'] })
      t.same(await it.nextv(2), [['0001', 'v'], ['0002', 'v']], 'as it was at the call')
      it.seek('2990')
      t.is((await it.all()).length, 10)
      t.same(await it.nextv(5), [], 'at its end')
      const back = tx.keys({ reverse: true, limit: 4, lt: '4' })
      t.same(await back.nextv(2), ['2999', '2998'])
      back.seek('0001')
      const [first, second, end] = await Promise.all([back.next(), back.next(), back.next()])
      t.same([first.value, second.value, end.done], ['0001', '0000', true],
        'reads that nobody awaits come in their order')
      const closed = tx.values()
      await closed.close()
      await closed.close()
      t.is((await rejection(closed.next())).code, 'LEVEL_ITERATOR_NOT_OPEN')
      t.ok((await rejection(tx.keys().nextv('x'))) instanceof TypeError)
      const buffers = tx.keys({ keyEncoding: 'buffer', gte: Buffer.from('2998') })
      buffers.seek('2999', { keyEncoding: 'utf8' })
      t.same(await buffers.all(),
        place === db ? [Buffer.from('2999'),
          ...(await tx.keys({ gte: '3', keyEncoding: 'buffer' }).all())] : [Buffer.from('2999')])
      t.is((await tx.keys({ lt: '3' }).all()).length, 3000)
    })
  }
  await db.close()
})

test('clear in a transaction', async (t) => {
  for (const format of ['native', 'leveldb']) {
    const db = fresh({ format, mergeOperator: undefined })
    await db.batch([...'abcdef'].map((key) => ({ type: 'put', key, value: key })))
    await db.transaction(async (tx) => {
      await tx.put('cc', '')
      await tx.clear({ gte: 'b', lt: 'd' })
      await tx.clear({ gte: 'b', lt: 'd' })
      await tx.clear({ gt: 'd', limit: 1 })
      t.same(await collect(tx.keys()), ['a', 'd', 'f'])
    })
    t.same(await db.keys().all(), ['a', 'd', 'f'], format)
    await db.close()
  }
})

test('clear in a transaction, of keys that are no text', async (t) => {
  const bytes = (...list) => list.map((hex) => Buffer.from(hex, 'hex'))
  const raw = { keyEncoding: 'buffer' }
  for (const format of ['native', 'leveldb']) {
    const db = fresh({ format, mergeOperator: undefined })
    // As a text, the keys of one byte are "\ufffd", which is not in the range.
    for (const key of bytes('61', '7f', '80', '81', 'efbfbd', 'ff')) await db.put(key, '', raw)
    await db.transaction((tx) => tx.clear({ gte: 'b', lt: '\u0800' }))
    t.same(await db.keys(raw).all(), bytes('61', 'efbfbd', 'ff'), format)
    await db.transaction((tx) => tx.clear({ gt: 'a', limit: 2 }))
    t.same(await db.keys(raw).all(), bytes('61'), `${format}, one by one`)
    await db.close()
  }
})

// Bad input: one sentence each, and nothing is lost.
test('what is refused', async (t) => {
  const db = fresh()
  await db.open()
  const says = (err, code, words) => {
    t.is(err?.code, code, err?.message)
    t.ok(err?.message.includes(words) && !err.message.includes('\n'), err?.message)
  }
  says((await rejection(db.keyspace('nowhere', { createIfMissing: false }).open())).cause,
    'LEVEL_NO_KEYSPACE', 'nowhere')
  says(await rejection(db.dropKeyspace('nowhere')), 'LEVEL_NO_KEYSPACE', 'nowhere')
  const plain = db.keyspace('plain')
  await plain.open()
  says(await rejection(plain.merge('k', '1')), 'LEVEL_NO_MERGE_OPERATOR', '"plain"')
  says(thrown(() => plain.mergeSync('k', '1')), 'LEVEL_NO_MERGE_OPERATOR', '"plain"')
  await db.transaction(async (tx) => {
    await tx.put('kept', '1')
    says(await rejection(tx.merge('k', '1', { keyspace: plain })), 'LEVEL_NO_MERGE_OPERATOR',
      '"plain"')
    says(await rejection(tx.deleteRange('b', 'a')), 'LEVEL_INVALID_ARGUMENT', 'behind its limit')
  })
  t.is(await db.get('kept'), '1')
  await db.transaction(async (tx) => {
    await tx.getForUpdate('kept')
    await tx.put('kept', '2') // a lock that it has is no wait
    t.is(await tx.getForUpdate('kept'), '2')
    says(await rejection(
      db.transaction((other) => other.put('kept', '3'),
        { lock: true, lockTimeout: 10, retries: 0 })), 'LEVEL_LOCK_TIMEOUT', 'kept')
  }, { lock: true })
  t.is(await db.get('kept'), '2')

  const conflict = await rejection(db.transaction(async (tx) => {
    await tx.deleteRange('a', 'z')
    await db.put('m', 'new')
  }, { retries: 0 }))
  says(conflict, 'LEVEL_CONFLICT', '"m"')
  t.is(await db.get('m'), 'new')

  const dropped = await rejection(db.transaction(async (tx) => {
    await tx.put('k', '1', { keyspace: plain })
    await tx.put('beside', '1')
    await db.dropKeyspace('plain')
  }, { retries: 0 }))
  says(dropped, 'LEVEL_NO_KEYSPACE', 'plain')
  t.is(await db.get('beside'), undefined)
  for (const call of [() => plain.get('k'), () => plain.put('k', '1'), () => plain.deleteRange(
    'a', 'b'), () => plain.transaction((tx) => tx.put('k', '1'))]) {
    says(await rejection(call()), 'LEVEL_NO_KEYSPACE', 'plain')
  }
  await db.close()

  const location = path.join(root, 'operator')
  const before = new Loam(location, { format: 'native', mergeOperator: 'append' })
  await before.merge('k', '1')
  await before.close()
  says((await rejection(new Loam(location, { mergeOperator: 'uint64add' }).open())).cause,
    'LEVEL_NO_MERGE_OPERATOR', '"append"')
  const after = new Loam(location)
  t.is(await after.get('k'), '1', 'nothing is lost')
  await after.close()
})

test('a keyspace has a compaction filter of its own', async (t) => {
  const db = fresh()
  await db.open()
  const tmp = db.keyspace('tmp', { compactionFilter: prefixFilter('x') })
  for (const place of [db, tmp]) {
    await place.batch(
      [{ type: 'put', key: 'a', value: '1' }, { type: 'put', key: 'x', value: '1' }])
    await place.compact()
  }
  t.same([await db.keys().all(), await tmp.keys().all()], [['a', 'x'], ['a']])
  const { txn, filter } = await tmp.metrics()
  t.ok(filter.removed >= 1 && txn.begun >= 0, 'metrics')
  await db.close()
})
