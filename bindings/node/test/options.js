'use strict'

// Options are refused before anything is done with them: unknown names, and numbers without sense.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { Backups, ClassicLevel, Loam, Resources, TableWriter, verifyDump } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-options-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

let n = 0
const location = () => path.join(root, String(n++))
const rejection = (call) => (async () => call())().then(() => ({ code: 'none', message: '' }),
  (err) => err)

test('unknown options of open()', async (t) => {
  for (const Level of [Loam, ClassicLevel]) {
    for (const [name, nearest] of [['writeBufferSise', 'writeBufferSize'],
      ['writebuffersize', 'writeBufferSize'], ['blocksize', 'blockSize'],
      ['errorIfMissing', 'createIfMissing'], ['createIfMising', 'createIfMissing'],
        ['readonly', 'readOnly']]) {
      const at = location()
      const err = await rejection(() => new Level(at, { [name]: 70000 }).open())
      t.is(err.code, 'LEVEL_DATABASE_NOT_OPEN')
      t.is(err.cause.code, 'LEVEL_INVALID_ARGUMENT')
      t.is(err.message,
        `Database failed to open: There is no option '${name}'; did you mean '${nearest}'?`)
      t.notOk(fs.existsSync(at))
    }
    const open = new Level(location(), { valueEncoding: 'json', writeBufferSise: undefined,
      prefix: 'x', version: 2, logger: null })
    await open.open({ passive: false, createIfMissing: true })
    await open.close()
  }
  const db = new Loam(location())
  t.is((await rejection(() => db.keyspace('users', { mergeOperater: 'max' }).open())).message,
    "Database failed to open: There is no option 'mergeOperater'; did you mean 'mergeOperator'?")
  await db.close()

  // Hooks have options of their own.
  const hooked = new Loam(location(), { ours: 1 })
  let seen
  hooked.hooks.postopen.add(async (options) => { seen = options.ours })
  await hooked.open()
  t.is(seen, 1)
  await hooked.close()
})

test('numbers', async (t) => {
  const wrong = [
    { writeBufferSize: -1 }, { writeBufferSize: 0 }, { blockSize: 0 }, { cacheSize: Infinity },
      { cacheSize: -1 }, { cacheSize: NaN }, { l0Stop: NaN },
    { blockSize: 4096.5 }, { maxOpenFiles: -Infinity }, { maxSpaceAmplification: NaN },
      { defaultTtl: -1 }, { followInterval: Infinity }, { bloomBits: 9.5 }, { maxMemtables: 0 }
  ]
  for (const Level of [Loam, ClassicLevel]) {
    for (const options of wrong) {
      const { code, message } = (
        await rejection(() => new Level(location(), options).open())).cause ?? {}
      const [[name, value]] = Object.entries(options)
      t.is(code, 'LEVEL_INVALID_ARGUMENT', message)
      t.ok(message.startsWith(`The option '${name}' must be `) &&
        message.endsWith(`, not ${value}`))
    }
  }
  t.is((await rejection(() => new Loam(location(), { blockSize: 100 }).open())).cause.message,
    "The option 'blockSize' must be an integer from 256 to 4194304 (bytes), not 100")
  for (const options of [{ cacheSize: 0 }, { writeBufferSize: '1MiB', maxSpaceAmplification: 1.5 },
    { defaultTtl: 0.5 }, { bloomBits: 0 }]) {
    const db = new Loam(location(), options)
    await db.open()
    await db.close()
  }
  // As in LevelDB.
  const clipped = new ClassicLevel(
    location(), { writeBufferSize: 1, maxOpenFiles: 1e12, blockSize: 1 })
  await clipped.open()
  t.same([clipped.option('writeBufferSize'), clipped.option('maxOpenFiles'),
    clipped.option('blockSize')], ['65536', '1048576', '256'])
  await clipped.close()
})

test('unknown options of methods', async (t) => {
  const db = new Loam(location())
  await db.put('a', '1')
  const backups = await Backups.open(location())
  const wrong = { sygnal: AbortSignal.abort() }
  const calls = {
    transaction: () => db.transaction(() => {}, { serialisable: true }),
    compact: () => db.compact(undefined, undefined, wrong),
    verify: () => db.verify(wrong),
    checkpoint: () => db.checkpoint(location(), { progress () {} }),
    catchUp: () => db.catchUp(wrong),
    ingest: () => db.ingest([], wrong),
    bulkLoad: () => db.bulkLoad([], { memmory: 1 }),
    dump: () => db.dump(location(), { compresion: 'zstd' }),
    load: () => db.load(location(), { overwite: true }),
    verifyDump: () => verifyDump(location(), wrong),
    changes: () => db.changes({ since: 1 }),
    merge: () => db.merge('a', '1', { synch: true }),
    mergeSync: async () => db.mergeSync('a', '1', { synch: true }),
    compareAndSwap: () => db.compareAndSwap('a', '1', '2', { synch: true }),
    putIfAbsent: () => db.sublevel('s').putIfAbsent('a', '1', { synch: true }),
    deleteRange: () => db.deleteRange('a', 'b', { synch: true }),
    deleteRangeSync: async () => db.deleteRangeSync('a', 'b', { synch: true }),
    ttl: () => db.ttl('a', { keyEncodin: 'utf8' }),
    approximateSize: () => db.approximateSize('a', 'b', { keyEncodin: 'utf8' }),
    transactionPut: () => db.transaction((tx) => tx.put('a', '1', { tll: 5 })),
    transactionClear: () => db.transaction((tx) => tx.clear({ gtt: 'a' })),
    transactionKeys: () => db.transaction((tx) => tx.keys({ snapshott: 5 }).all()),
    backups: () => Backups.open(location(), { readonly: true }),
    backup: () => backups.create(db, { bytesPerSecnd: 1 }),
    resources: () => new Resources({ memmory: 1 }),
    table: () => TableWriter.create(location(), { blocksize: 1 }),
    repair: () => Loam.repair(db.location, { comparater: 'x' }),
    upgrade: () => Loam.upgrade(db.location, { createIfMissing: true }),
    export: () => Loam.export(db.location, location(), { formt: 'native' })
  }
  for (const [name, call] of Object.entries(calls)) {
    const err = await rejection(call)
    t.is(err.code, 'LEVEL_INVALID_ARGUMENT', `${name}: ${err.message}`)
    t.ok(/^There is no option '\w+'; did you mean '\w+'\?$/.test(err.message), name)
  }
  await backups.close()
  await db.close()
})

test('highWaterMarkBytes', async (t) => {
  const db = new Loam(location())
  const value = 'x'.repeat(10000)
  await db.batch(Array.from({ length: 100 }, (_, i) => ({ type: 'put', key: `${i + 100}`, value })))
  for (const bytes of [Infinity, 2 ** 40]) {
    const iterator = db.iterator({ highWaterMarkBytes: bytes })
    t.is((await iterator.nextv(1000)).length, 100)
    await iterator.close()
    t.is(db.iteratorSync({ highWaterMarkBytes: bytes }).nextv(1000).length, 100)
  }
  for (const bytes of [-1, 0.5, NaN, '1']) {
    const iterator = db.iterator({ highWaterMarkBytes: bytes })
    t.is((await rejection(() => iterator.next())).code, 'LEVEL_INVALID_ARGUMENT')
    await iterator.close()
    t.is((await rejection(() => db.iteratorSync({ highWaterMarkBytes: bytes }))).code,
      'LEVEL_INVALID_ARGUMENT')
  }
  await db.close()
})

test('why a database did not open is in the message', async (t) => {
  const at = location()
  const db = new Loam(path.join(at, 'x'), { createDirs: false })
  const early = [db.get('a'), db.put('a', '1'), db.sublevel('s').get('a'),
    db.sublevel('s').sublevel('t').put('a', '1'), db.flush(), db.keyspace('k').get('a')].map((
      promise) => rejection(() => promise))
  const err = await rejection(() => db.open())
  t.ok(err.message.startsWith('Database failed to open: loam: '), err.message)
  t.ok(err.message.includes('no such file or directory'))
  t.ok(err.stack.includes(err.message), 'in what the console shows')
  t.is(err.cause.errno, -os.constants.errno.ENOENT)
  for (const promise of early) {
    t.ok(/no such file or directory$/.test((await promise).message), (await promise).message)
  }

  fs.mkdirSync(at)
  await db.open()
  await db.close()
  t.is((await rejection(() => db.get('a'))).message, 'Database is not open', 'it was closed later')
})

test('repair of a directory that does not exist', async (t) => {
  const at = location()
  const err = await rejection(() => Loam.repair(at))
  t.is(err.code, 'LEVEL_DATABASE_MISSING')
  t.ok(err.message.endsWith(': no such file or directory'), err.message)
  t.same([err.errno, err.path], [-os.constants.errno.ENOENT, at])
})
