// Compiled by test/package.js, not run.

import { Loam, OpenOptions } from 'loamdb'

interface User { name: string }

const options: OpenOptions = { compression: 'zstd', cacheSize: '64MiB', writeBufferSize: 1024, readOnly: false, multithreading: true }

export async function main (): Promise<void> {
  const db = new Loam('x')
  await db.open(options)
  await db.put('a', 'b', { sync: true })
  const a: string | undefined = await db.get('a')
  const b: string | undefined = db.getSync('a')
  db.putSync('a', 'b', { sync: true })
  db.batchSync([{ type: 'put', key: 'a', value: 'b' }, { type: 'del', key: 'a' }], { sync: true })
  for (const [key, value] of db.iteratorSync({ gte: 'a', limit: 3 })) console.log(key.length, value.length)
  for await (const [key, value] of db.iterator({ highWaterMarkBytes: 100 })) console.log(key.length, value.length)
  await using snapshot = db.snapshot()
  await db.getMany(['a'], { snapshot, fillCache: false })
  await db.batch().put('a', 'b').write({ sync: true })
  const size: number = await db.approximateSize('a', 'b')
  await db.compactRange('a', 'b')
  await db.clear({ lt: 'c', sync: true })
  console.log(a, b, size, db.getProperty('leveldb.stats'))

  const users = new Loam<string, User>('y', { valueEncoding: 'json' })
  users.putSync('u', { name: 'Ada' })
  const user: User | undefined = users.getSync('u')
  // @ts-expect-error: a string is not a User
  users.putSync('u', 'Ada')
  console.log(user)
  await Loam.repair('x')
  await Loam.destroy('x')
}
