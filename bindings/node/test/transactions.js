'use strict'

// Transactions and compare-and-swap.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { Worker } = require('worker_threads')
const { Loam } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-transactions-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))
let n = 0
const fresh = (options) => new Loam(path.join(root, String(n++)), options)

async function rejection (promise) {
  return promise.then(() => ({ code: 'none' }), (err) => err)
}

// A promise and the function that resolves it.
function gate () {
  const g = {}
  g.promise = new Promise((resolve) => { g.open = resolve })
  return g
}

for (const format of ['leveldb', 'native']) {
  test(`commit and rollback, ${format}`, async (t) => {
    const db = fresh({ format })
    const result = await db.transaction(async (tx) => { // opens by itself
      await tx.put('a', '1')
      t.is(await tx.get('a'), '1', 'reads its own write')
      t.is(await db.get('a'), undefined, 'which nobody else does')
      return 'the result'
    })
    t.is(result, 'the result')
    t.is(await db.get('a'), '1')

    const failure = new Error('changed my mind')
    const err = await rejection(db.transaction(async (tx) => {
      await tx.put('a', '2')
      await tx.del('b')
      throw failure
    }))
    t.is(err, failure, 'the same error')
    t.is(await db.get('a'), '1', 'rolled back')

    // writes that nobody awaits come before the commit, in their order
    await db.transaction((tx) => {
      tx.put('a', '3')
      tx.put('a', '4')
      tx.del('b')
      tx.put('b', '')
    }, { sync: true })
    t.same(await db.getMany(['a', 'b']), ['4', ''])
    await db.transaction((tx) => tx.del('a'))
    t.is(await db.get('a'), undefined)

    db.put('c', 'earlier', { sync: true })
    t.is(await db.transaction((tx) => tx.get('c')), 'earlier',
      'sees writes that were asked for before it')
    await db.close()
  })
}

test('it reads one state', async (t) => {
  const db = fresh()
  await db.batch([{ type: 'put', key: 'a', value: '1' }, { type: 'put', key: 'b', value: '1' }])
  await db.transaction(async (tx) => {
    await db.put('a', '2')
    t.is(await tx.get('a'), '1')
    t.same(await tx.getMany(['a', 'b', 'none']), ['1', '1', undefined])
  })
  await db.close()
})

test('a conflict is tried again', async (t) => {
  const db = fresh()
  await db.put('n', '0')
  let calls = 0
  await db.transaction(async (tx) => {
    const n = Number(await tx.get('n'))
    if (calls++ < 2) await db.put('n', String(n + 10))
    await tx.put('n', String(n + 1))
  })
  t.is(calls, 3)
  t.is(await db.get('n'), '21')

  for (const [options, wanted] of [[{ retries: 0 }, 1], [{ retries: 2 }, 3], [{}, 11]]) {
    calls = 0
    const err = await rejection(db.transaction(async (tx) => {
      await tx.put('n', 'mine')
      await db.put('n', String(calls++))
    }, options))
    t.is(err.code, 'LEVEL_CONFLICT', err.message)
    t.is(calls, wanted)
    t.is(await db.get('n'), String(wanted - 1), 'nothing was committed')
  }

  await db.put('n', '0')
  const add = () =>
    db.transaction(async (tx) => tx.put('n', String(Number(await tx.getForUpdate('n')) + 1)),
      { retries: Infinity })
  await Promise.all(Array.from({ length: 20 }, add))
  t.is(await db.get('n'), '20', 'no update is lost')
  await db.close()
})

test('what was read conflicts where it should', async (t) => {
  const db = fresh()
  const attempt = (read, options) => rejection(db.transaction(async (tx) => {
    await read(tx)
    await db.put('x', String(n++))
    await tx.put('y', '1')
  }, { retries: 0, ...options }))
  const walk = async (tx) => {
    for await (const key of tx.keys({ gte: 'w' })) if (key === 'none') break
  }
  t.is((await attempt((tx) => tx.get('x'))).code, 'none', 'snapshot isolation')
  t.is((await attempt((tx) => tx.getForUpdate('x'))).code, 'LEVEL_CONFLICT', 'getForUpdate')
  t.is((await attempt((tx) => tx.get('x'), { serializable: true })).code, 'LEVEL_CONFLICT',
    'serializable, a key')
  t.is((await attempt(walk, { serializable: true })).code, 'LEVEL_CONFLICT',
    'serializable, a range')
  await db.close()
})

test('iterators', async (t) => {
  const db = fresh()
  await db.batch([...'abcdef'].map((key) => ({ type: 'put', key, value: key.toUpperCase() })))
  const all = async (iterable) => {
    const entries = []
    for await (const entry of iterable) entries.push(entry)
    return entries
  }
  let late
  await db.transaction(async (tx) => {
    await tx.put('bb', 'own')
    await tx.del('c')
    await tx.put('d', 'new')
    t.same(await all(tx.iterator({ gt: 'a', lte: 'd' })), [['b', 'B'], ['bb', 'own'], ['d', 'new']])
    t.same(await all(tx.keys({ reverse: true, limit: 3 })), ['f', 'e', 'd'])
    t.same(await all(tx.values({ lt: 'b' })), ['A'])
    t.same(await all(
      tx.iterator({ gte: 'e', keyEncoding: 'buffer', valueEncoding: 'json', values: false,
        keys: true })), [[Buffer.from('e'), undefined], [Buffer.from('f'), undefined]])
    t.same(await all(tx.keys({ limit: 0 })), [])
    t.same(await all(tx.keys({ gt: 'x' })), [])
    for await (const key of tx.keys()) await tx.put(`${key}+`, '') // does not see what it writes
    t.is((await all(tx.keys())).length, 12)
    await db.batch(
      Array.from({ length: 3000 }, (_, i) =>
        ({ type: 'put', key: `x${i}`, value: 'x'.repeat(100) })))
    t.is((await all(tx.keys())).length, 12, 'nor what others write')
    late = tx.iterator()
    await late.next()
  })
  t.is((await rejection(late.next())).code, 'LEVEL_TRANSACTION_DONE')
  t.is((await db.transaction((tx) => all(tx.values()))).length, 3012, 'through several blocks')
  await db.close()
})

test('savepoints', async (t) => {
  const db = fresh()
  await db.transaction(async (tx) => {
    await tx.put('a', '1')
    const first = await tx.savepoint()
    await tx.put('a', '2')
    const second = await tx.savepoint()
    await tx.put('b', '1')
    await tx.rollbackTo(second)
    t.same(await tx.getMany(['a', 'b']), ['2', undefined])
    await tx.rollbackTo(first)
    t.is(await tx.get('a'), '1')
    t.is((await rejection(tx.rollbackTo(second))).code, 'LEVEL_INVALID_ARGUMENT',
      'a later one is gone')
    t.ok((await rejection(tx.rollbackTo('first'))) instanceof TypeError)
    await tx.put('c', '1')
    await tx.rollbackTo(first)
  })
  t.same(await db.getMany(['a', 'b', 'c']), ['1', undefined, undefined])
  await db.close()
})

test('encodings', async (t) => {
  const db = fresh({ keyEncoding: 'json', valueEncoding: 'json' })
  await db.transaction(async (tx) => {
    await tx.put([1], { a: 1 })
    t.same(await tx.get([1]), { a: 1 })
    t.same(await tx.get('[1]', { keyEncoding: 'utf8', valueEncoding: 'buffer' }),
      Buffer.from('{"a":1}'))
    await tx.put('bad', '{', { valueEncoding: 'utf8' })
    t.is((await rejection(tx.get('bad'))).code, 'LEVEL_DECODE_ERROR')
    await tx.put([2], Buffer.alloc(100000, 'ä'), { valueEncoding: 'buffer' })
    t.same(await tx.get([2], { valueEncoding: 'view' }), Buffer.alloc(100000, 'ä'))
    for (const key of [null, undefined]) {
      t.is((await rejection(tx.get(key))).code, 'LEVEL_INVALID_KEY')
    }
    t.is((await rejection(tx.put('x', undefined))).code, 'LEVEL_INVALID_VALUE')
  })
  t.same(await db.get([1]), { a: 1 })
  await db.close()
})

test('keyspaces', async (t) => {
  const [db, other] = [fresh({ format: 'native' }), fresh({ format: 'native' })]
  await db.open()
  await other.open()
  const users = db.keyspace('users', { valueEncoding: 'json' })
  await db.transaction(async (tx) => {
    await tx.put('a', { age: 3 }, { keyspace: users }) // still opening
    await tx.put('a', 'default')
    t.same(await tx.get('a', { keyspace: users }), { age: 3 })
    for await (const entry of tx.iterator({ keyspace: users })) t.same(entry, ['a', { age: 3 }])
    t.is((await rejection(tx.get('a', { keyspace: other }))).code, 'LEVEL_INVALID_ARGUMENT')
    for (const keyspace of [{}, 'users', db.sublevel('s')]) {
      t.is((await rejection(tx.put('a', '1', { keyspace }))).code, 'LEVEL_INVALID_ARGUMENT')
    }
  })
  t.same([await users.get('a'), await db.get('a')], [{ age: 3 }, 'default'])
  await users.transaction(async (tx) => {
    await tx.put('b', 1)
    await tx.put('b', '2', { keyspace: db })
  })
  t.same([await users.get('b'), await db.get('b')], [1, '2'])
  await other.close()
  await db.close()
})

test('locks', async (t) => {
  const db = fresh()
  await db.put('k', '0')
  const [held, release] = [gate(), gate()]
  const order = []
  const holder = db.transaction(async (tx) => {
    await tx.put('k', 'held')
    held.open()
    await release.promise
    order.push('holder')
  }, { lock: true, name: 'holder' })
  await held.promise
  const err = await rejection(
    db.transaction((tx) => tx.put('k', '1'), { lock: true, lockTimeout: 20, retries: 0 }))
  t.is(err.code, 'LEVEL_LOCK_TIMEOUT', err.message)

  // More of them wait than libuv's pool has threads, and everything else goes on.
  const waiting = Array.from({ length: 12 }, (_, i) => db.transaction(async (tx) => {
    await tx.put('k', String(Number(await tx.getForUpdate('k')) + 1 || 1))
    order.push(i)
  }, { lock: true, lockTimeout: Infinity }))
  await db.transaction((tx) => tx.put('other', '1'), { lock: true, sync: true })
  await db.compact()
  t.same(order, [], 'they wait')
  release.open()
  await holder
  await Promise.all(waiting)
  t.is(order.length, 13)
  t.is(order[0], 'holder')
  t.is(await db.get('k'), '12')
  await db.close()
})

test('calls are made in their order', async (t) => {
  const db = fresh()
  for (const lock of [false, true]) {
    await db.put('k', 'before')
    await db.transaction(async (tx) => {
      const reads = []
      for (let i = 0; i < 50; i++) {
        reads.push(tx.get('k'))
        tx.put('k', String(i))
      }
      t.same(await Promise.all(reads),
        ['before', ...Array.from({ length: 49 }, (_, i) => String(i))])
      tx.put('k', 'last')
    }, { lock })
    t.is(await db.get('k'), 'last')
  }
  await db.close()
})

test('a deadlock', async (t) => {
  const db = fresh()
  const both = [gate(), gate()]
  const take = (i, keys) => rejection(db.transaction(async (tx) => {
    await tx.getForUpdate(keys[0])
    both[i].open()
    await both[1 - i].promise
    await tx.getForUpdate(keys[1])
  }, { lock: true, lockTimeout: Infinity, retries: 0 }))
  const codes = (await Promise.all([take(0, 'ab'), take(1, 'ba')])).map((err) => err.code)
  t.same(codes.sort(), ['LEVEL_DEADLOCK', 'none'])
  await db.transaction((tx) => tx.put('a', '1'), { lock: true, lockTimeout: 0, retries: 0 })
  t.is(await db.get('a'), '1', 'no lock is left')
  await db.close()
})

const calls = {
  get: (tx) => tx.get('a'),
  getForUpdate: (tx) => tx.getForUpdate('a'),
  getMany: (tx) => tx.getMany(['a']),
  has: (tx) => tx.has('a'),
  put: (tx) => tx.put('a', '1'),
  merge: (tx) => tx.merge('a', '1'),
  del: (tx) => tx.del('a'),
  deleteRange: (tx) => tx.deleteRange('a', 'b'),
  clear: (tx) => tx.clear(),
  savepoint: (tx) => tx.savepoint(),
  rollbackTo: (tx) => tx.rollbackTo(1),
  iterator: (tx) => tx.iterator().next(),
  keys: (tx) => tx.keys().next(),
  values: (tx) => tx.values().next()
}

test('after the end', async (t) => {
  const db = fresh()
  const ended = {}
  await db.transaction(async (tx) => { ended.commit = tx })
  await rejection(db.transaction(async (tx) => {
    ended.rollback = tx
    throw new Error('no')
  }))
  t.same(Object.getOwnPropertyNames(Object.getPrototypeOf(ended.commit)).sort(),
    ['constructor', ...Object.keys(calls)].sort(), 'all its methods are tried')
  for (const [name, call] of Object.entries(calls)) {
    for (const [how, tx] of Object.entries(ended)) {
      t.is((await rejection(call(tx))).code, 'LEVEL_TRANSACTION_DONE', `${name} after ${how}`)
    }
  }
  await db.close()
  for (const [name, call] of Object.entries(calls)) {
    t.is((await rejection(call(ended.commit))).code, 'LEVEL_DATABASE_NOT_OPEN', name)
  }
  t.is((await rejection(db.transaction(async () => {}))).code, 'LEVEL_DATABASE_NOT_OPEN')
  t.is((await rejection(db.compareAndSwap('a', '1', '2'))).code, 'LEVEL_DATABASE_NOT_OPEN')
  t.is((await rejection(db.putIfAbsent('a', '1'))).code, 'LEVEL_DATABASE_NOT_OPEN')
})

test('closing the database ends transactions', async (t) => {
  const db = fresh()
  await db.open()
  const [begun, closed] = [gate(), gate()]
  let iterator
  const ends = [rejection(db.transaction(async (tx) => {
    await tx.put('a', '1')
    iterator = tx.iterator()
    await iterator.next()
    begun.open()
    await closed.promise
    for (const [name, call] of Object.entries(calls)) {
      t.is((await rejection(call(tx))).code, 'LEVEL_DATABASE_NOT_OPEN', name)
    }
    t.is((await rejection(iterator.next())).code, 'LEVEL_DATABASE_NOT_OPEN', 'an iterator')
  }, { lock: true }))]
  await begun.promise
  // waits for the lock
  ends.push(
    rejection(db.transaction((tx) => tx.put('a', '2'), { lock: true, lockTimeout: Infinity })))
  await db.get('a')
  await db.close()
  closed.open()
  for (const err of await Promise.all(ends)) t.is(err.code, 'LEVEL_DATABASE_NOT_OPEN', err.message)
  await db.open()
  t.is(await db.get('a'), undefined, 'nothing was committed')
  await db.close()
})

test('compare and swap', async (t) => {
  const db = fresh({ valueEncoding: 'json' })
  t.is(await db.compareAndSwap('a', undefined, 1), true, 'opens by itself')
  t.is(await db.compareAndSwap('a', null, 2), false)
  t.is(await db.compareAndSwap('a', 2, 3), false)
  t.is(await db.get('a'), 1)
  t.is(await db.compareAndSwap('a', 1, 2, { sync: true }), true)
  t.is(await db.compareAndSwap('a', 2, undefined), true, 'a delete')
  t.is(await db.get('a'), undefined)
  t.is(await db.putIfAbsent('b', 1), true)
  t.is(await db.putIfAbsent('b', 2), false)
  t.is(await db.get('b'), 1)
  t.is(await db.putIfAbsent('e', '', { valueEncoding: 'utf8' }), true, 'an empty value')
  t.is(await db.compareAndSwap('e', undefined, 1), false, 'is a value')
  t.is(await db.compareAndSwap('e', '', 'x', { valueEncoding: 'utf8' }), true)

  db.put('o', 1) // takes effect before what follows
  t.is(await db.compareAndSwap('o', 1, 2), true, 'in the order of the calls')
  const won = await Promise.all(Array.from({ length: 20 }, (_, i) => db.putIfAbsent('race', i)))
  t.is(won.filter(Boolean).length, 1)
  t.is((await rejection(db.compareAndSwap(null, 1, 2))).code, 'LEVEL_INVALID_KEY')
  t.is((await rejection(db.putIfAbsent('a', null))).code, 'LEVEL_INVALID_VALUE')
  await db.close()
})

test('wrong arguments', async (t) => {
  const db = fresh()
  await db.open()
  for (const fn of [undefined, null, {}, 'fn']) {
    t.ok((await rejection(db.transaction(fn))) instanceof TypeError)
  }
  for (const options of [{ retries: -1 }, { retries: 'many' }, { retries: NaN },
    { lockTimeout: 'long' }, { lockTimeout: NaN }, { name: 'a\0b' }, { name: 1 }]) {
    let called = false
    t.is((await rejection(db.transaction(() => {
      called = true
    }, options))).code, 'LEVEL_INVALID_ARGUMENT', JSON.stringify(options))
    t.notOk(called)
  }
  await db.close()
})

test('a worker that ends while a transaction waits for a lock', async (t) => {
  const location = path.join(root, String(n++))
  const worker = new Worker(`
    const { parentPort, workerData } = require('worker_threads')
    const { Loam } = require(workerData.module)
    const db = new Loam(workerData.location)
    db.transaction(async (tx) => {
      await tx.put('a', '1')
      db.transaction((other) => other.put('a', '2'), { lock: true, lockTimeout: Infinity })
        .catch(() => {})
      while ((await db.metrics()).txn.lock_waits === 0); // the wait tells nobody that it begins
      parentPort.on('message', () => {}) // the worker stays
      parentPort.postMessage('waiting')
      await new Promise(() => {})
    }, { lock: true })`,
      { eval: true, workerData: { module: path.join(__dirname, '..'), location } })
  await new Promise((resolve) => worker.once('message', resolve))
  await worker.terminate()
  const db = new Loam(location)
  t.is(await db.get('a'), undefined, 'the directory is free, and nothing was committed')
  await db.close()
})
