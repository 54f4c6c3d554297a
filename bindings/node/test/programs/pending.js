'use strict'

// Begins operations of the named kinds, says so, and is ended from outside with them under way;
// with "exit", by process.exit().

const { workerData, parentPort, isMainThread } = require('worker_threads')
const { PassThrough, Writable } = require('stream')
const path = require('path')
const { Backups, Loam, TableWriter, verifyDump } = require('../..')

const begun = isMainThread ? JSON.parse(process.argv[2] ?? null) : workerData // null: for exports
const { root = '', kinds, turns, id, ending } = begun ?? {}
const location = path.join(root, 'shared')
const fresh = (name) => path.join(root, `${name}-${id}`)
const value = 'v'.repeat(500)

// Never takes anything, so that the pipe before it stays full.
const deaf = () => new Writable({ highWaterMark: 1, write () {} })
// Never ends.
const silent = () => new PassThrough()

async function own (name) {
  const db = new Loam(path.join(root, name))
  await db.open()
  return db
}

async function folder () {
  const backups = await Backups.open(fresh('folder'))
  return backups
}

async function * endless () {
  for (let i = 0; ; i++) yield [`bulk${String(i).padStart(12, '0')}`, value]
}

// Each begins operations and keeps them under way.
const operations = {
  changes: (db) => [db.changes().next(), db.changes({ durable: true }).next()],
  poll: (db) => Array.from({ length: 20 }, () => db.changes().poll()),
  lock: (db) => [1, 2, 3].map((i) => db.transaction(async (tx) => {
    await tx.put(`own${i}`, 'x')
    await tx.put('held', 'x')
  }, { lock: true, lockTimeout: Infinity })),
  lockRead: (db) =>
    [db.transaction((tx) => tx.getForUpdate('held'), { lock: true, lockTimeout: Infinity })],
  transaction: (db) => Array.from({ length: 10 }, (_, i) => db.transaction(async (tx) => {
    await tx.put(`t${i}`, value)
    await tx.get('key1')
    await tx.keys({ limit: 10 }).all()
  }, { sync: true })),
  dump: (db) => [db.dump(fresh('dump'))],
  dumpStream: (db) => [db.dump(deaf()), db.dump(deaf(), { progress () {} })],
  load: () => [own(`load-${id}`).then((db) => db.load(silent()))],
  verifyDump: () => [verifyDump(silent())],
  backup: (db) => [folder().then((backups) => backups.create(db))],
  slowBackup: (db) => [folder().then((backups) => backups.create(db, { bytesPerSecond: 1 }))],
  verifyBackup: (db) => [Backups.open(path.join(root, 'backups'), { readOnly: true }).then(
    (backups) => backups.verify(1, { bytesPerSecond: 1 }))],
  restore: (db) => [Backups.open(path.join(root, 'backups'), { readOnly: true }).then(
    (backups) => backups.restore(1, fresh('restored'), { bytesPerSecond: 1 }))],
  checkpoint: (db) => [db.checkpoint(fresh('checkpoint'))],
  compact: (db) => [db.compact(), db.compact('k', 'l', { progress () {} })],
  verify: (db) => [db.verify(), db.verify({ progress () {} })],
  flush: (db) => [db.flush(), db.flush()],
  bulkLoad: () => [own(`bulk-${id}`).then((db) => db.bulkLoad(endless(), { memory: 1 << 20 }))],
  ingest: (db) => [TableWriter.create(fresh('table')).then(async (writer) => {
    for (let i = 0; i < 1000; i++) writer.put(`ingested${String(i).padStart(6, '0')}`, value)
    await writer.finish()
    await db.ingest([writer.location])
  })],
  table: () => [TableWriter.create(fresh('table')).then((writer) => {
    for (let i = 0; i < 1000; i++) writer.put(`ingested${String(i).padStart(6, '0')}`, value)
    return writer.finish()
  })],
  get: (db) => Array.from({ length: 200 }, (_, i) => db.get(`key${i}`, { fillCache: false })),
  getMany: (db) =>
    [1, 2, 3].map(() => db.getMany(Array.from({ length: 200 }, (_, i) => `key${i}`))),
  put: (db) => Array.from({ length: 50 }, (_, i) => db.put(`p${i}`, value, { sync: i % 10 === 0 })),
  batch: (db) =>
    [1, 2, 3].map(
      () => db.batch(
        Array.from({ length: 500 }, (_, i) => ({ type: 'put', key: `b${i}`, value })))),
  swap: (db) => Array.from({ length: 10 }, () => db.compareAndSwap('swap', undefined, 'x')),
  clear: (db) => [db.clear({ gte: 'b', lt: 'c', limit: 100 }), db.clear({ gte: 'b', lt: 'c' }),
    db.deleteRange('b', 'c')],
  iterator: (db) => [db.iterator().all(), db.values({ reverse: true }).nextv(1000),
    db.keys().next()],
  snapshot: (db) => [db.snapshot(), db.iterator({ snapshot: db.snapshot() }).nextv(100)],
  open: () =>
    [own(`opened-${id}`), new Loam(path.join(root, 'shared-too'), { multithreading: true }).open()],
  close: () => [own(`closed-${id}`).then(async (db) => {
    await Promise.all(Array.from({ length: 100 }, (_, i) => db.put(`key${i}`, value)))
    await db.close()
  })],
  closeShared: (db) => [db.close()],
  closeWaits: () => [own(`busy-${id}`).then(async (db) => {
    const waiting = db.changes().next()
    const flushing = [db.flush(), db.compact()]
    await db.close()
    return [waiting, flushing]
  })],
  keyspace: (db) => [db.keyspace(`space-${id}`).open().then(() => db.dropKeyspace(`space-${id}`)),
    db.keyspace('other').put('a', value)],
  follow: () => [Loam.follow(location).then((follower) => Promise.all([
    follower.catchUp(), follower.getMany(['key1', 'key2']), follower.iterator().nextv(100),
      follower.snapshot(), follower.lag(),
    follower.transaction((tx) => tx.get('key1'))
  ]))],
  report: (db) => [db.metrics(), db.recoveryReport(), db.approximateSize('a', 'z')],
  repair: () => [own(`repaired-${id}`).then(async (db) => {
    await db.put('a', value)
    await db.close()
    await Loam.repair(path.join(root, `repaired-${id}`))
    await Loam.export(path.join(root, `repaired-${id}`), fresh('exported'))
    await Loam.destroy(path.join(root, `repaired-${id}`))
  })]
}

async function main () {
  const db = new Loam(location, { multithreading: true, logger () {} })
  await db.open()
  for (const kind of kinds) {
    for (const promise of operations[kind](db)) Promise.resolve(promise).catch(() => {})
  }
  for (let i = 0; i < turns; i++) await new Promise(setImmediate)
  parentPort?.postMessage('begun')
  if (ending === 'exit') process.exit(7)
  setInterval(() => {}, 1000)
}

exports.kinds = Object.keys(operations)

if (kinds !== undefined) main()
