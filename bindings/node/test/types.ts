// Compiled by test/package.js, not run.

import { Backup, Backups, Cache, ClassicLevel, DumpInfo, KeyUse, verifyDump, Loam, OpenOptions,
  prefixFilter, RecoveryReport, TableWriter } from 'loamdb'
import loamdb from 'loamdb'
import { connect, Remote, RemoteError } from 'loamdb/remote'

interface User { name: string }

const cache = new Cache('64MiB')
const options: OpenOptions = { compression: 'zstd', cacheSize: '64MiB', writeBufferSize: 1024,
  readOnly: false, multithreading: true, cache, logger: console, comparator: 'idb_cmp1',
  compactionFilter: prefixFilter('a', new Uint8Array(2)) }

export async function main (): Promise<void> {
  await using db = new Loam('x')
  await db.open(options)
  await db.put('a', 'b', { sync: true })
  const a: string | undefined = await db.get('a')
  const b: string | undefined = db.getSync('a')
  db.putSync('a', 'b', { sync: true })
  db.batchSync([{ type: 'put', key: 'a', value: 'b' }, { type: 'del', key: 'a' }], { sync: true })
  for (const [key, value] of db.iteratorSync({ gte: 'a', limit: 3 })) {
    console.log(key.length, value.length)
  }
  for await (const [key, value] of db.iterator({ highWaterMarkBytes: 100 })) console.log(
    key.length, value.length)
  await using snapshot = db.snapshot()
  await using iterator = db.iterator({ snapshot })
  await using keys = db.keys()
  await using batch = db.batch()
  using entries = db.iteratorSync({ snapshot })
  using second = new Cache(1024)
  console.log(iterator, keys, batch, entries.next().value?.[0].length, second)
  await db.getMany(['a'], { snapshot, fillCache: false })
  await db.batch().put('a', 'b', { ttl: 60 }).del('c', { keyspace: db }).write({ sync: true })
  const size: number = await db.approximateSize('a', 'b')
  const sizes: number[] = await db.approximateSizes([['a', 'b'], [null, undefined]])
  await db.compactRange('a', 'b')
  await db.compact()
  await db.compact('a', null)
  await db.verify()
  await db.verify({ signal: new AbortController().signal, progress: (done, total) =>
    console.log(done / total) })
  await db.checkpoint('copy')
  await using table = await TableWriter.create('t', { compression: 'zstd' })
  table.put('k', new Uint8Array(2), { ttl: 5 })
  await table.finish()
  await db.ingest([table.location], { move: true, excise: ['a', 'b'] })
  await db.bulkLoad([['a', 'b']], { memory: 1e6 })
  await db.bulkLoad(db.iterator(), { signal: new AbortController().signal })
  db.setOption('blockSize', '8KiB')
  const value: string = db.option('blockSize')
  console.log(value)
  await db.checkpoint('copy', { signal: new AbortController().signal })
  await db.compact('a', null, { signal: new AbortController().signal, progress: (done, total) =>
    console.log(done / total) })
  await db.flush()
  await db.sync()
  db.pauseCompaction()
  db.resumeCompaction()
  db.retry()
  const report: RecoveryReport = await db.recoveryReport()
  await db.rekey({ signal: new AbortController().signal })
  const uses: KeyUse[] = await db.keysInUse()
  console.log(uses[0].provider, uses[0].id, uses[0].files + 1)
  console.log(sizes, (await db.metrics()).flush, report.was_clean, db.comparatorName())
  await db.clear({ lt: 'c', sync: true })
  console.log(a, b, size, db.getProperty('leveldb.stats'))

  const users = new Loam<string, User>(
    'y', { valueEncoding: 'json', logger: (level, message) => console.log(level, message.length) })
  users.putSync('u', { name: 'Ada' })
  const user: User | undefined = users.getSync('u')
  // @ts-expect-error: a string is not a User
  users.putSync('u', 'Ada')
  console.log(user)
  const sub = users.sublevel<string, number>('s', { valueEncoding: 'json' })
  sub.putSync('a', 1)
  const one: number | undefined = sub.getSync('a')
  for (const [key, value] of sub.sublevel('t').iteratorSync()) {
    console.log(key.length, value.length, one)
  }
  users.batchSync(
    [{ type: 'put', key: 'a', value: { name: 'b' } }, { type: 'del', sublevel: sub, key: 'a' }])

  await users.batch<string, number>([{ type: 'put', key: 'a', value: 1 }])
  await db.batch([{ type: 'put', key: 'a', value: 'b', ttl: 5 }, { type: 'del', key: 'c' }])
  db.batchSync([{ type: 'merge', key: 'a', value: 'b' }, { type: 'put', key: 'a', value: 'b', ttl:
    5 }])
  sub.batchSync([{ type: 'merge', key: 'a', value: 1 }])
  await sub.put('a', 1, { ttl: 5, sync: true })
  await db.transaction((tx) => tx.put('a', 'b', { ttl: 5 }))
  // @ts-expect-error: a deletion does not expire
  await db.batch([{ type: 'del', key: 'a', ttl: 5 }])
  // @ts-expect-error: batchSync alone takes merges
  await db.batch([{ type: 'merge', key: 'a', value: 'b' }])
  // @ts-expect-error: it lives for ever
  await db.putIfAbsent('a', 'b', { ttl: 5 })
  // @ts-expect-error: it lives for ever
  await db.merge('a', 'b', { ttl: 5 })
  users.batchSync<number,
    User>([{ type: 'put', key: 1, value: { name: 'b' } }, { type: 'del', key: 2 }])
  sub.batchSync<string, User>([{ type: 'put', key: 'a', value: { name: 'b' } }])
  // @ts-expect-error: a number is not a User
  await users.batch([{ type: 'put', key: 'a', value: 1 }])
  // @ts-expect-error: a string is not a number
  await users.batch<string, number>([{ type: 'put', key: 'a', value: 'b' }])
  const typed = users.keyspace<string, number>('t')
  await typed.put('a', 1)
  // @ts-expect-error: a string is not a number
  await typed.put('a', 'b')

  const age: number = await users.transaction(async (tx) => {
    await tx.put('v', { name: 'Eve' })
    const eve: User | undefined = await tx.getForUpdate('v')
    // @ts-expect-error: a string is not a User
    await tx.put('v', 'Eve')
    for await (const [key, { name }] of tx.iterator({ gte: 'a', limit: 2 })) console.log(
      key.length, name.length, eve)
    await tx.rollbackTo(await tx.savepoint())
    return 7
  }, { serializable: true, lock: true, lockTimeout: Infinity, retries: 3, sync: true })
  const below: string[] = await sub.transaction(async (tx) => {
    await tx.merge('a', 1)
    await tx.deleteRange('b', 'c')
    await tx.clear({ gt: 'c' })
    await tx.put('u', { name: 'Eve' }, { sublevel: users.sublevel('x') })
    const there: boolean = await tx.has('a')
    await using entries = tx.iterator({ gte: 'a' })
    entries.seek('b')
    const pairs: Array<[string, number]> = await entries.nextv(there ? 1 : 2)
    const values: number[] = await tx.values({ sublevel: sub }).all()
    // @ts-expect-error: a string is no number
    await tx.merge('a', 'b')
    return pairs.map(([key]) => key + String(values.length))
  })
  sub.mergeSync('a', 1)
  sub.deleteRangeSync('a', 'b', { sync: true })
  users.deleteRangeSync('a', 'b')
  const absent: boolean = await sub.putIfAbsent('a', 1)
  console.log(below, absent, await sub.approximateSize('a', null), await sub.compareAndSwap(
    'a', 1, undefined))
  const spaces = users.keyspace<string, number>(
    'k', { valueEncoding: 'json', mergeOperator: 'max', compactionFilter: prefixFilter('t') })
  await spaces.transaction((tx) => tx.merge('a', 1))
  const swapped: boolean = await users.compareAndSwap('v', undefined, { name: 'Eve' },
    { sync: true })
  console.log(age, swapped, await users.putIfAbsent('v', { name: 'Eve' }))

  const backups: Backups = await Backups.open('backups', { readOnly: false })
  const made: Backup = await backups.create(
    users, { bytesPerSecond: 1, progress: (done: number, total: number) => {
    console.log(done, total)
  } })
  await backups.verify(made.id, { signal: AbortSignal.timeout(1) })
  await backups.restore(made.id, 'restored')
  console.log(made.created.getTime() + made.newBytes, (await backups.list()).map(
    (backup) => backup.error), backups.location)
  await backups.delete(made.id)
  await backups.keep(2)
  await backups.close()
  // @ts-expect-error: they are opened
  console.log(new Backups())

  const dumped: DumpInfo = await users.dump(
    'stream', { compression: 'zstd', resume: false, signal: AbortSignal.timeout(1) })
  const loadedInfo: DumpInfo = await users.load(process.stdin, { overwrite: true })
  console.log(dumped.size + loadedInfo.keyspaces[0].entries,
    (await verifyDump('stream')).created.getTime())

  const classic: ClassicLevel<string, User> = users
  const same: typeof Loam = loamdb.Loam
  console.log(classic.location, same === loamdb.ClassicLevel)
  console.log((await Loam.repair('x', { comparator: 'idb_cmp1' })).tables)
  await Loam.destroy('x')
}

export async function remote (): Promise<string | undefined> {
  await using db: Remote = connect('loam://a:7070,b:7070', { token: 't', tls: { ca: 'x' } })
  await db.put('a', 'b', { once: 'put a' })
  await db.batch([{ type: 'put', key: 'a', value: 'b' }, { type: 'del', key: 'c' }])
  const swapped: boolean = await db.compareAndSwap('a', 'b', undefined)
  await using snapshot = await db.snapshot()
  for await (const [key, value] of snapshot.iterator({ gte: 'a', reverse: swapped })) {
    console.log(key.length, value.length)
  }
  const keys: string[] = await db.keys({ limit: 3 }).all()
  const bytes = connect<Uint8Array, Uint8Array>('loam://a:7070', { keyEncoding: 'view',
    valueEncoding: 'view' })
  const value: Uint8Array | undefined = await bytes.local(100).get(new Uint8Array(2))
  try {
    return await db.transaction(async (tx) => {
      tx.put('a', String(keys.length + (value?.length ?? 0)))
      return await tx.get('a')
    }, { timeout: 100 })
  } catch (err) {
    if (err instanceof RemoteError && err.unknown) return err.code
    throw err
  }
}
