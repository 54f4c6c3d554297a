'use strict'

// What this package adds to abstract-level, and what its suite does not reach.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { Worker } = require('worker_threads')
const { Loam } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-api-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

let n = 0
const location = () => path.join(root, String(n++))

async function opened (options) {
  const db = new Loam(location(), options)
  await db.open()
  return db
}

async function codeOf (promise) {
  try {
    await promise
  } catch (err) {
    return err.cause?.code ?? err.code
  }
}

function thrown (f) {
  try {
    f()
  } catch (err) {
    return err
  }
}

test('synchronous methods', async (t) => {
  const db = await opened()
  db.putSync('a', '1')
  db.putSync('b', '2', { sync: true })
  db.batchSync([{ type: 'put', key: 'c', value: '3' }, { type: 'del', key: 'a' }], { sync: true })
  t.is(db.getSync('a'), undefined)
  t.is(await db.get('c'), '3')
  t.same([...db.iteratorSync()], [['b', '2'], ['c', '3']])
  t.same([...db.iteratorSync({ reverse: true, limit: 1 })], [['c', '3']])
  t.same(db.iteratorSync({ gt: 'b', values: false }).all(), [['c', undefined]])
  db.delSync('b')
  t.is(db.getSync('b'), undefined)

  const iterator = db.iteratorSync()
  iterator.seek('c')
  t.same(iterator.next(), { done: false, value: ['c', '3'] })
  t.same(iterator.next(), { done: true, value: undefined })
  t.same(iterator.nextv(10), [], 'closed at its end')

  const open = db.iteratorSync()
  await db.close()
  t.is(thrown(() => open.nextv(1)).code, 'LEVEL_ITERATOR_NOT_OPEN', 'closed with the database')
  for (const f of [() => db.getSync('a'), () => db.putSync('a', 'b'), () => db.batchSync([]),
    () => db.iteratorSync()]) {
    t.is(thrown(f).code, 'LEVEL_DATABASE_NOT_OPEN')
  }
})

test('synchronous writes come after earlier ones, with sublevels, events and hooks', async (t) => {
  const db = await opened({ valueEncoding: 'json' })
  const first = db.put('k', 1)
  db.putSync('k', 2)
  await first
  t.is(await db.get('k'), 2)

  const events = []
  db.on('write', (ops) => events.push(...ops))
  const sub = db.sublevel('s', { valueEncoding: 'json' })
  db.batchSync([{ type: 'put', sublevel: sub, key: 'x', value: { y: 1 } }])
  t.same(await sub.get('x'), { y: 1 })
  t.is(events[0].type, 'put')
  t.throws(() => db.batchSync([{ type: 'no', key: 'x' }]), /must have a type/)
  t.is(thrown(() => db.putSync(null, 1)).code, 'LEVEL_INVALID_KEY')
  t.is(thrown(() => db.putSync('a', undefined)).code, 'LEVEL_INVALID_VALUE')

  db.hooks.prewrite.add(() => { throw new Error('no') })
  const refused = thrown(() => db.putSync('a', 1))
  t.is(refused.code, 'LEVEL_HOOK_ERROR')
  t.is(refused.cause.message, 'no')
  t.is(db.getSync('a'), undefined)
  await db.close()
})

test('keys and values of all sizes and bytes', async (t) => {
  const db = await opened()
  const sizes = [0, 1, 41, 42, 43, 127, 128, 767, 768, 4096, 4097, 16384, 65535, 65536, 65537,
    3000000]
  const units = ['a', 'é', '€', '😀']
  for (const unit of units) {
    for (const size of sizes) {
      const text = unit.repeat(size)
      await db.put(`v${size}`, text)
      const same = await db.get(`v${size}`) === text && db.getSync(`v${size}`) === text
      const bytes = (await db.get(`v${size}`, { valueEncoding: 'buffer' })).equals(
        Buffer.from(text))
      const [[, scanned]] = await db.iterator({ gte: `v${size}`, limit: 1 }).all()
      if (!same || !bytes || scanned !== text) t.fail(`value of ${size} x ${unit}`)
      if (size > 100000) continue
      await db.put(text, 'x')
      if (db.getSync(text) !== 'x' ||
        db.getSync(Buffer.from(text), { keyEncoding: 'buffer' }) !== 'x') t.fail(
        `key of ${size} x ${unit}`)
      await db.del(text)
      if (await db.has(text)) t.fail(`deleted key of ${size} x ${unit}`)
    }
  }
  const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
  const binary = { keyEncoding: 'view', valueEncoding: 'view' }
  await db.put(all, all, binary)
  t.ok(all.equals(await db.get(all, binary)), 'binary')
  t.ok(all.equals((await db.iterator(binary).all()).find(([k]) => k.length === 256)[1]),
    'binary in a scan')
  await db.close()
})

test('many operations at once keep their order and their answers', async (t) => {
  const db = await opened({ cacheSize: 65536, writeBufferSize: 65536 })
  const value = (i) => String(i).padStart(8, '0').repeat(40)
  const pending = []
  for (let i = 0; i < 5000; i++) {
    pending.push(db.put(String(i % 1000), 'old'), db.put(String(i % 1000), value(i)))
  }
  await Promise.all(pending)
  await db.compactRange('', '~')
  const values = await Promise.all(Array.from({ length: 1000 }, (_, i) => db.get(String(i))))
  t.ok(values.every((v, i) => v === value(4000 + i)), 'gets')
  const keys = Array.from({ length: 1000 }, (_, i) => String(i + 500))
  const wanted = keys.map((k) => k < 1000 ? value(4000 + Number(k)) : undefined)
  t.same(await db.getMany(keys), wanted, 'getMany')
  t.same(await db.getMany(keys, { fillCache: false }), wanted, 'getMany without filling the cache')
  t.same((await db.getMany(keys, { valueEncoding: 'buffer' })).map((v) => v?.toString()), wanted,
    'getMany of buffers')
  t.same(await db.hasMany(keys), keys.map((k) => k < 1000), 'hasMany')
  t.is((await db.iterator({ highWaterMarkBytes: 100 }).all()).length, 1000, 'a low water mark')
  t.is((await db.iterator().nextv(1000)).length <= 1000, true)
  await db.close()
})

test('cached reads and small writes leave timers their turn', async (t) => {
  const db = await opened()
  let fired = false
  setTimeout(() => { fired = true }, 1)
  await db.put('a', '1')
  const start = Date.now()
  while (!fired && Date.now() - start < 60000) await db.get('a')
  t.ok(fired, 'reads')
  fired = false
  setTimeout(() => { fired = true }, 1)
  while (!fired && Date.now() - start < 60000) await db.put('a', '1')
  t.ok(fired, 'writes')
  await db.close()
})

test('properties, sizes, compaction, destroy, repair', async (t) => {
  const at = location()
  const db = new Loam(at, { compression: false })
  await db.approximateSize('a', 'b') // deferred until it is open
  t.is(db.location, at)
  for (let i = 0; i < 100; i++) await db.put(String(i), 'x'.repeat(10000))
  await db.compactRange('0', ':')
  t.ok(await db.approximateSize('0', ':') > 900000)
  t.ok(/Level/.test(db.getProperty('leveldb.stats')))
  t.is(db.getProperty('no.such.property'), '')
  t.throws(() => db.getProperty(1), TypeError)
  await db.close()
  t.throws(() => db.getProperty('leveldb.stats'), /not open/)
  t.is(await codeOf(db.compactRange('a', 'b')), 'LEVEL_DATABASE_NOT_OPEN')
  await Loam.repair(at)
  await db.open()
  t.is(await db.get('99'), 'x'.repeat(10000))
  await db.close()
  await Loam.destroy(at)
  t.notOk(fs.existsSync(path.join(at, 'CURRENT')))
  t.ok(await Loam.destroy('').catch((err) => err) instanceof TypeError)
  t.throws(() => new Loam(''), /non-empty string/)
})

test('formats: upgrade and export', async (t) => {
  const at = location()
  const isNative = (where) => fs.statSync(path.join(where, 'CURRENT')).isDirectory()
  const open = async (where) => { const db = new Loam(where); await db.open(); return db }
  let db = new Loam(at, { format: 'leveldb' })
  await db.put('k', 'v')
  t.is(await codeOf(Loam.upgrade(at)), 'LEVEL_LOCKED')
  await db.close()
  t.notOk(isNative(at))
  await Loam.upgrade(at)
  await Loam.upgrade(at) // nothing to do
  t.ok(isNative(at))
  db = await open(at)
  t.is(await db.get('k'), 'v')
  await db.close()
  const back = location()
  const again = location()
  await Loam.export(at, back)
  t.notOk(isNative(back))
  await Loam.export(back, again, { format: 'native' })
  t.ok(isNative(again))
  for (const where of [back, again]) {
    db = await open(where)
    t.is(await db.get('k'), 'v')
    await db.close()
  }
  t.is(await codeOf(Loam.export(at, back)), 'LEVEL_DATABASE_EXISTS')
  t.is(await codeOf(Loam.upgrade(location())), 'LEVEL_DATABASE_MISSING')
  t.is(await codeOf(Loam.export(at, location(), { format: 'rocksdb' })), 'LEVEL_INVALID_ARGUMENT')
})

test('errors of opening', async (t) => {
  const db = await opened()
  t.is(await codeOf(new Loam(db.location).open()), 'LEVEL_LOCKED')
  await db.close()
  t.is(await codeOf(new Loam(db.location, { blockSize: 'many' }).open()), 'LEVEL_INVALID_ARGUMENT')
  const refused = await new Loam(db.location, { cacheSize: '-1' }).open().catch((err) => err.cause)
  t.is(refused.code, 'LEVEL_INVALID_ARGUMENT')
  t.ok(/cache_size.*want 0 to/.test(refused.message), refused.message)
  const readOnly = new Loam(db.location, { readOnly: true })
  await readOnly.open()
  t.is(await codeOf(readOnly.put('a', 'b')), 'LEVEL_READONLY')
  await readOnly.close()
  fs.writeFileSync(path.join(db.location, 'CURRENT', 'manifest'), 'nonsense')
  t.is(await codeOf(new Loam(db.location).open()), 'LEVEL_CORRUPTION')
})

test('snapshots, closed ones too', async (t) => {
  const db = await opened()
  await db.put('a', '1')
  const snapshot = db.snapshot()
  await db.put('a', '2')
  t.is(db.getSync('a', { snapshot }), '1')
  t.same([...db.iteratorSync({ snapshot })], [['a', '1']])
  const [found] = await Promise.all([db.hasMany(['a', 'b'], { snapshot }), snapshot.close()])
  t.same(found, [true, false], 'closed while in use')
  const iterator = db.iterator({ snapshot })
  iterator.seek('a')
  t.is(await codeOf(iterator.next()), 'LEVEL_SNAPSHOT_NOT_OPEN')
  t.is(thrown(() => db.iteratorSync({ snapshot }).next()).code, 'LEVEL_SNAPSHOT_NOT_OPEN')
  t.is(await codeOf(db.get('a', { snapshot })), 'LEVEL_SNAPSHOT_NOT_OPEN')
  t.is(thrown(() => db.iterator({ snapshot: { ref () {}, unref () {} } })).code,
    'LEVEL_INVALID_ARGUMENT')
  await db.close()
})

test('an aborted iterator', async (t) => {
  const db = await opened()
  await db.put('a', '1')
  const controller = new AbortController()
  const iterator = db.iterator({ signal: controller.signal })
  const next = iterator.next()
  controller.abort()
  const err = await next.catch((e) => e)
  t.is(err.name, 'AbortError')
  t.is(err.code, 'LEVEL_ABORTED')
  await db.close()
})

test('wrong arguments of the native functions', async (t) => {
  const { native } = require('../binding')
  const db = native.database()
  for (const [name, f] of Object.entries(native)) {
    // pipeClose(1) closes a descriptor of this process
    if (typeof f !== 'function' || ['database', 'load', 'pipeClose'].includes(name)) continue
    for (const args of [[], [null], [{}], [1, 2, 3], [location() + '/none/x'], [db],
      [db, db, db, db, db, db, db]]) {
      try {
        f(...args)?.catch?.(() => {})
      } catch (err) {
        if (!(err instanceof Error)) t.fail(name)
      }
    }
  }
  t.pass('no crash')
})

test('one database in several threads', async (t) => {
  const db = await opened({ multithreading: true })
  const program = `
    const { workerData, parentPort } = require('worker_threads')
    const { Loam } = require(workerData.package)
    async function main () {
      const db = new Loam(workerData.location, { multithreading: true })
      for (let i = 0; i < 100; i++) await db.put(workerData.name + i, 'x')
      await db.close()
      parentPort.postMessage('done')
    }
    main()`
  await Promise.all(['a', 'b'].map((name) => new Promise((resolve, reject) => {
    const workerData = { package: path.join(__dirname, '..'), location: db.location, name }
    new Worker(program, { eval: true, workerData }).on('message', resolve).on('error', reject)
  })))
  t.is((await db.keys().all()).length, 200)
  await db.close()
})
