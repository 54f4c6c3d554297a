'use strict'

// Long work and reads side by side, where libuv's pool has one thread.

process.env.UV_THREADPOOL_SIZE = '1' // before its first use

const test = require('tape')
const fs = require('fs')
const { execFileSync } = require('child_process')
const os = require('os')
const path = require('path')
const { PassThrough, Writable } = require('stream')
const { Backups, Loam } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-pool-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

async function filled () {
  const db = new Loam(path.join(root, 'db'))
  await db.open()
  for (let i = 0; i < 5000; i++) db.putSync(`key${i}`, `${i}`.repeat(300))
  await db.flush()
  return db
}

test('long work takes no thread of the pool', { skip: process.platform === 'win32' }, async (t) => {
  const db = await filled()
  const fifo = path.join(root, 'fifo')
  execFileSync('mkfifo', [fifo])
  const opening = fs.promises.open(fifo, 'r') // holds the thread until a writer opens the other end
  await db.verify()
  await db.verify({ progress () {} })
  await db.compact()
  db.putSync('one', 'more')
  await db.flush()
  await db.checkpoint(path.join(root, 'checkpoint'))
  const reading = db.getMany(['key1', 'none'])
  const writer = fs.openSync(fifo, fs.constants.O_RDWR) // never waits
  t.is((await reading)[1], undefined, 'a read')
  await (await opening).close()
  fs.closeSync(writer)
  await db.close()
})

test('what waits without end holds up no reads', async (t) => {
  const db = new Loam(path.join(root, 'db'))
  await db.open()
  const to = new Loam(path.join(root, 'loaded'))
  await to.open()
  const aborting = new AbortController()
  const { signal } = aborting
  const stream = new PassThrough()
  const backups = await Backups.open(path.join(root, 'backups'))
  const feeds = Array.from({ length: 12 }, () => db.changes())
  const waiting = [
    ...feeds.map((feed) => feed.next()),
    db.dump(new Writable({ highWaterMark: 1, write () {} }), { signal }),
    to.load(stream, { signal }),
    backups.create(db, { bytesPerSecond: 1, signal }),
    db.transaction(async (tx) => {
      await tx.put('held', 'x')
      const inner = [1, 2, 3, 4, 5].map((i) => db.transaction((other) => other.put('held', `${i}`),
        { lock: true, lockTimeout: Infinity }))
      t.is((await db.getMany(['key1', 'none']))[0], '1'.repeat(300), 'a read behind locks')
      inner.forEach((promise) => waiting.push(promise))
    }, { lock: true })
  ]
  await waiting.at(-1)
  t.same(await db.keys({ gte: 'k', limit: 1 }).all(), ['key0'], 'an iterator')
  aborting.abort()
  stream.destroy()
  await Promise.all(feeds.map((feed) => feed.close()))
  await Promise.allSettled(waiting)
  await backups.close()
  await to.close()
  await db.close()
})
