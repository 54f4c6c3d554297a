'use strict'

// Buffers that are handed out belong to their receiver; values of any size; how
// far iterators read ahead.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { Loam } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-values-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

let n = 0
async function opened (options) {
  const db = new Loam(path.join(root, String(n++)), options)
  await db.open()
  return db
}

const transfer = (buffer) => structuredClone(buffer, { transfer: [buffer.buffer] })

async function failure (f) {
  try {
    return await f()
  } catch (err) {
    return err
  }
}

const key = (i) => String(i).padStart(4, '0')
// Short, medium and large ones: short typed arrays lie on V8's heap.
const value = (i) => Buffer.alloc([10, 100, 5000, 70000][i % 4], `value ${i} `)

// Numbers that are not bytes are stored by their bytes, as classic-level does.
test('typed arrays of other types, and DataViews', async (t) => {
  const db = await opened({ keyEncoding: 'view', valueEncoding: 'view' })
  const memory = new ArrayBuffer(64)
  new Uint8Array(memory).forEach((_, i, bytes) => { bytes[i] = 7 * i })
  const views = [Int8Array, Uint16Array, Int32Array, Float32Array, Float64Array, BigUint64Array]
    .map((View) => new View(memory, 8, 3)).concat(new DataView(memory, 3, 5))
  const key = new Uint16Array([1, 300])
  const ways = {
    put: (value) => db.put(key, value),
    putSync: (value) => db.putSync(key, value),
    ttl: (value) => db.put(key, value, { ttl: 1000 }),
    batch: (value) => db.batch([{ type: 'put', key, value }]),
    batchSync: (value) => db.batchSync([{ type: 'put', key, value }]),
    chained: (value) => db.batch().put(key, value).write()
  }
  for (const view of views) {
    const bytes = Buffer.from(memory, view.byteOffset, view.byteLength)
    for (const [name, write] of Object.entries(ways)) {
      await write(view)
      const found = [await db.get(key), db.getSync(key), (await db.getMany([key]))[0],
        (await db.values({ gte: key, lte: key }).all())[0]]
      t.ok(found.every((value) => bytes.equals(value)), `${view.constructor.name} by ${name}`)
      await db.del(key)
      t.is(await db.has(key), false)
    }
    await db.put(view, view)
    t.ok(bytes.equals(await db.get(bytes)), `a key that is a ${view.constructor.name}`)
  }
  await db.close()
})

for (const encoding of ['buffer', 'view']) {
  test(`transferring a ${encoding} takes nothing from another`, async (t) => {
    const db = await opened({ keyEncoding: encoding, valueEncoding: encoding })
    await db.batch(
      Array.from({ length: 400 }, (_, i) =>
        ({ type: 'put', key: Buffer.from(key(i)), value: value(i) })))

    // Each has exactly its bytes, in an ArrayBuffer of its own, also after all others are gone.
    const check = (buffers, name, wanted) => {
      const own = buffers.every((b) => b.buffer.byteLength === b.length && b.byteOffset === 0)
      let right = 0
      for (const [i, b] of buffers.entries()) {
        if (wanted(i).equals(b)) right++
        transfer(b)
      }
      t.ok(own, `${name}: own memory`)
      t.is(right, buffers.length, `${name}: contents`)
      t.ok(buffers.every((b) => b.length === 0), `${name}: transferred`)
    }
    const keys = Array.from({ length: 400 }, (_, i) => Buffer.from(key(i)))

    let seen = 0
    for await (const [k, v] of db.iterator()) {
      if (!value(seen).equals(v) || !keys[seen].equals(k)) t.fail(`entry ${seen}`)
      seen++
      transfer(v)
      transfer(k)
    }
    t.is(seen, 400, 'for await')
    const entries = await db.iterator().nextv(400)
    check(entries.map((e) => e[1]), 'nextv, values', value)
    check(entries.map((e) => e[0]), 'nextv, keys', (i) => keys[i])
    check(db.iteratorSync().all().map((e) => e[1]), 'iteratorSync', value)
    check(await db.keys().all(), 'keys', (i) => keys[i])
    check(await db.values().all(), 'values', value)
    check(await db.getMany(keys), 'getMany', value)
    check(await Promise.all(keys.map((k) => db.get(k))), 'get, from memory', value)
    check(keys.map((k) => db.getSync(k)), 'getSync', value)
    await db.compactRange(keys[0], keys[399])
    await db.close()
    await db.open()
    check(await Promise.all(keys.map((k) => db.get(k))), 'get, from disk', value)
    check(keys.map((k) => db.getSync(k)), 'getSync, later', value)
    await db.close()
  })
}

// The long way round takes a minute and 2 GiB.
const long = process.env.LOAM_T2 !== undefined

test('values too long for a string', async (t) => {
  const db = await opened()
  const big = Buffer.alloc(540 * 1024 * 1024, 97)
  await db.batch([{ type: 'put', key: 'a', value: '1' }, { type: 'put', key: 'c', value: '3' }])
  await db.put('b', big, { valueEncoding: 'buffer' })
  const isProper = (err, name) => t.ok(err instanceof Error && err.code === 'LEVEL_DECODE_ERROR' &&
    /566231040 bytes.*'buffer'/.test(err.message), `${name}: ${err}`)

  isProper(await failure(() => db.getSync('b')), 'getSync')
  const [a, b, c] = await Promise.allSettled(['a', 'b', 'c'].map((k) => db.get(k)))
  isProper(b.reason, 'get')
  t.same([a.value, c.value], ['1', '3'], 'gets of the same turn')
  if (long) isProper(await failure(() => db.getMany(['a', 'b', 'c'])), 'getMany')
  if (long) isProper(await failure(() => db.iterator().all()), 'iterator')
  if (long) isProper(await failure(() => db.iteratorSync().all()), 'iteratorSync')
  // Nothing is lost around it.
  const iterator = db.iterator()
  t.same(await iterator.nextv(10), [['a', '1']])
  isProper(await failure(() => iterator.nextv(10)), 'nextv')
  t.same(await iterator.nextv(10), [['c', '3']])
  await iterator.close()

  const options = { valueEncoding: 'buffer' }
  if (long) t.ok(big.equals(await db.get('b', options)), 'get as a buffer')
  if (long) t.ok(big.equals(db.getSync('b', options)), 'getSync as a buffer')
  if (long) t.ok(big.equals((await db.getMany(['a', 'b'], options))[1]), 'getMany as buffers')
  t.ok(big.equals((await db.values({ gte: 'b', limit: 1, ...options }).all())[0]),
    'an iterator of buffers')
  await db.close()
})

test('highWaterMarkBytes', async (t) => {
  const db = await opened({ valueEncoding: 'buffer' })
  for (let i = 0; i < 100; i++) await db.put(key(i), Buffer.alloc(96)) // 100 bytes with its key
  const lengths = async (make) => {
    const iterator = make()
    const list = []
    for (let length; (length = (await iterator.nextv(1000)).length) > 0;) list.push(length)
    await iterator.close?.()
    return list
  }
  for (const method of ['iterator', 'iteratorSync']) {
    const chunks = (options) => lengths(() => db[method](options))
    t.same(await chunks({ highWaterMarkBytes: 0 }), Array(100).fill(1), `${method}: one entry`)
    t.same(await chunks({ highWaterMarkBytes: 99 }), Array(100).fill(1),
      `${method}: the first goes beyond`)
    t.same(await chunks({ highWaterMarkBytes: 100 }), Array(50).fill(2),
      `${method}: stops above the limit, not at it`)
    t.same(await chunks({ highWaterMarkBytes: 950 }), Array(10).fill(10),
      `${method}: the entry that goes beyond is the last`)
    t.same(await chunks({ highWaterMarkBytes: 950, reverse: true }), Array(10).fill(10),
      `${method}: in reverse`)
    t.same(await chunks({ highWaterMarkBytes: 1e6 }), [100], `${method}: no limit`)
    t.same(await chunks({}), [100], `${method}: the default`)
    t.same(await chunks({ keys: false, highWaterMarkBytes: 95 }), Array(100).fill(1),
      `${method}: values alone`)
    t.same(await chunks({ keys: false, highWaterMarkBytes: 96 }), Array(50).fill(2),
      `${method}: values alone, two`)
  }
  t.same(await lengths(() => db.keys({ highWaterMarkBytes: 39 })), Array(10).fill(10), 'keys')
  t.same(await lengths(() => db.values({ highWaterMarkBytes: 959 })), Array(10).fill(10), 'values')
  let all = 0
  for await (const [k] of db.iterator({ highWaterMarkBytes: 0 })) all += k.length
  t.is(all, 400)
  await db.close()
})

test('large entries in scans, as text and as bytes', async (t) => {
  const db = await opened()
  const sizes = [1, 16000, 16384, 16385, 3, 100000, 20000, 5]
  const text = (i) => (i % 3 === 0 ? 'é' : 'x').repeat(sizes[i])
  for (let i = 0; i < sizes.length; i++) await db.put(key(i), text(i))
  await db.put('k'.repeat(50000), '')
  for (const reverse of [false, true]) {
    const wanted = [...sizes.map((_, i) => [key(i), text(i)]), ['k'.repeat(50000), '']]
    if (reverse) wanted.reverse()
    t.ok(JSON.stringify(await db.iterator({ reverse }).all()) === JSON.stringify(wanted), 'entries')
    t.ok(JSON.stringify(await db.keys({ reverse }).all()) === JSON.stringify(
      wanted.map((e) => e[0])), 'keys')
    t.ok(JSON.stringify(await db.values({ reverse }).all()) === JSON.stringify(
      wanted.map((e) => e[1])), 'values')
    const mixed = await db.iterator({ reverse, valueEncoding: 'buffer' }).all()
    t.ok(mixed.every(([k, v], i) => k === wanted[i][0] && v.toString() === wanted[i][1]), 'mixed')
  }
  await db.close()
})

test('bytes that are transferred or changed behind a call', async (t) => {
  const db = new Loam(path.join(root, 'transferred'),
    { keyEncoding: 'buffer', valueEncoding: 'buffer' })
  await db.open()
  const key = Buffer.from('key')
  const bytes = () => Buffer.from(new Uint8Array([1, 2, 3]).buffer)
  const gone = (...buffers) => buffers.forEach(
    (buffer) => structuredClone(buffer, { transfer: [buffer.buffer] }))
  const calls = {
    put: (key, value) => [db.put(key, value)],
    'put with sync': (key, value) => [db.put(key, value, { sync: true })],
    batch: (key, value) => [db.batch([{ type: 'put', key, value }])],
    compareAndSwap: (key, value) => [db.put(Buffer.from('x'), value),
      db.compareAndSwap(key, undefined, value)]
  }
  for (const [name, call] of Object.entries(calls)) {
    await db.del(key)
    const [k, v] = [Buffer.from(new Uint8Array(key).buffer), bytes()]
    const promises = call(k, v)
    gone(k, v)
    await Promise.all(promises)
    t.same(await db.get(key), Buffer.from([1, 2, 3]), name)
  }
  const [from, to] = [Buffer.from(new Uint8Array(key).buffer),
    Buffer.from(new Uint8Array([0xff]).buffer)]
  const waiting = [db.put(Buffer.from('a'), key, { sync: true }), db.deleteRange(from, to)]
  gone(from, to)
  await Promise.all(waiting)
  t.same(await db.keys().all(), [Buffer.from('a')], 'deleteRange')
  await db.transaction(async (tx) => {
    const [k, v] = [Buffer.from(new Uint8Array(key).buffer), bytes()]
    const puts = [tx.put(Buffer.from('first'), key), tx.put(k, v)]
    gone(k, v)
    await Promise.all(puts)
  })
  t.same(await db.get(key), Buffer.from([1, 2, 3]), 'transaction')
  await db.close()
})

// As with classic-level, a batch has the bytes of the moment.
test('bytes that change while a chained batch is filled, or a keyspace opens', async (t) => {
  const db = await opened({ keyEncoding: 'buffer', valueEncoding: 'view' })
  const sublevel = db.sublevel('s', { keyEncoding: 'buffer', valueEncoding: 'view' })
  await sublevel.open()
  for (const place of [db, sublevel]) {
    const bytes = Buffer.from('ab')
    const numbers = new Float32Array([1])
    const batch = place.batch().put(bytes, bytes)
    bytes[0]++
    batch.put(bytes, bytes)
    bytes[0]++
    batch.put(bytes, numbers).del(bytes).put(bytes, numbers)
    numbers[0]++
    bytes[0]++
    await batch.write()
    t.same(await place.iterator({ keyEncoding: 'utf8', valueEncoding: 'hex' }).all(),
      [['ab', '6162'], ['bb', '6262'], ['cb', '0000803f']])
  }
  const keyspace = db.keyspace('k')
  t.is(keyspace.status, 'opening')
  await db.transaction(async (tx) => {
    const bytes = Buffer.from('a')
    const put = tx.put(bytes, bytes, { keyspace, keyEncoding: 'buffer', valueEncoding: 'buffer' })
    bytes[0]++
    await put
  })
  t.same(await keyspace.iterator().all(), [['a', 'a']])
  await db.close()
})

// An empty view is asked for its length, which may run code of the program.
test('a key that is transferred while its empty value is looked at', async (t) => {
  const db = await opened({ keyEncoding: 'view', valueEncoding: 'view' })
  const key = new Uint8Array(1000).fill(7)
  const value = new DataView(new ArrayBuffer(0))
  Object.defineProperty(value, 'byteLength', { get: () => transfer(key) && 0 })
  t.ok(await failure(() => db.putSync(key, value)) instanceof TypeError)
  t.same(await db.keys().all(), [], 'nothing was stored')
  await db.close()
})

test('a Uint8Array that was transferred or cut off before a call', async (t) => {
  const db = new Loam(path.join(root, 'detached'),
    { keyEncoding: 'buffer', valueEncoding: 'buffer' })
  await db.open()
  const transferred = () => {
    const bytes = Buffer.from(new ArrayBuffer(8))
    transfer(bytes)
    return bytes
  }
  const cutOff = () => { // its ArrayBuffer ends before it
    const memory = new ArrayBuffer(8, { maxByteLength: 8 })
    const bytes = Buffer.from(memory, 4, 4)
    memory.resize(2)
    return bytes
  }
  let gone
  const calls = {
    put: () => db.put('k', gone()),
    del: () => db.del(gone()),
    batch: () => db.batch([{ type: 'put', key: gone(), value: 'v' }]),
    putSync: () => db.putSync('k', gone()),
    delSync: () => db.delSync(gone()),
    batchSync: () => db.batchSync([{ type: 'put', key: 'k', value: gone() }]),
    get: () => db.get(gone()),
    getSync: () => db.getSync(gone()),
    has: () => db.has(gone()),
    iterator: () => db.iterator({ gte: gone() }).all(),
    iteratorSync: () => db.iteratorSync({ lt: gone() }).all(),
    compareAndSwap: () => db.compareAndSwap('k', undefined, gone()),
    deleteRange: () => db.deleteRange(gone(), 'z'),
    transaction: () => db.transaction((tx) => tx.put('k', gone())),
    transactionGet: () => db.transaction((tx) => tx.get(gone())),
    chained: () => db.batch().put('k', gone()).write(),
    bulkLoad: () => db.bulkLoad([['k', gone()]])
  }
  for (gone of 'resize' in ArrayBuffer.prototype ? [transferred, cutOff] : [transferred]) {
    for (const [name, call] of Object.entries(calls)) {
      const err = await (async () => call())().then(() => null, (err) => err)
      t.ok(err instanceof TypeError, `${name} of one ${gone.name}`)
    }
  }
  t.same(await db.iterator().all(), [], 'nothing was stored')
  await db.put(Buffer.alloc(0), new Uint8Array(0))
  t.is((await db.get(Buffer.alloc(0))).length, 0, 'empty ones are bytes')
  await db.close()
})
