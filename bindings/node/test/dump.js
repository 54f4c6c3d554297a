'use strict'

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { PassThrough, Readable, Writable } = require('stream')
const { Worker } = require('worker_threads')
const { Loam, verifyDump } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-dump-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))
let n = 0
const place = () => path.join(root, `${++n}`)

async function filled () {
  const db = new Loam(place())
  await db.open()
  const value = (i) => `${i}`.repeat(100)
  await db.batch(
    Array.from({ length: 3000 }, (_, i) => ({ type: 'put', key: `key${i}`, value: value(i) })))
  await db.keyspace('users').put('ann', '1')
  return db
}

async function same (t, a, b) {
  t.same(await b.iterator().all(), await a.iterator().all())
  t.is(await b.keyspace('users').get('ann'), '1')
}

test('dump and load', async (t) => {
  const db = await filled()
  const file = place()
  const info = await db.dump(file, { compression: 'zstd' })
  t.same(info.keyspaces.map((k) => [k.name, k.entries]), [['default', 3000], ['users', 1]])
  t.is(info.size, fs.statSync(file).size)
  t.same(await verifyDump(file), info)
  const to = new Loam(place())
  t.same(await to.load(file), info)
  await same(t, db, to)
  t.is((await to.load(file).catch((err) => err)).code, 'LEVEL_DATABASE_EXISTS')
  await to.load(file, { overwrite: true })

  const stream = new PassThrough()
  const second = new Loam(place())
  const [written, read] = await Promise.all([db.dump(stream), second.load(stream)])
  t.same(written, read)
  await same(t, db, second)

  const whole = fs.readFileSync(file)
  fs.writeFileSync(file, whole.subarray(0, whole.length - 10))
  t.is((await verifyDump(file).catch((err) => err)).code, 'LEVEL_CORRUPTION')
  await db.dump(file, { compression: 'zstd', resume: true })
  t.same(fs.readFileSync(file), whole)

  const snapshot = db.snapshot()
  await db.put('later', 'x')
  const third = new Loam(place())
  await db.dump(file, { snapshot })
  await third.load(file)
  t.is(await third.get('later'), undefined)
  await snapshot.close()

  const before = fs.readFileSync(file)
  t.is((await db.dump(file, { snapshot }).catch((err) => err)).code, 'LEVEL_SNAPSHOT_NOT_OPEN')
  for (const compression of ['zip', 'none,zstd', '', 1]) {
    t.is((await db.dump(file, { compression }).catch((err) => err)).code, 'LEVEL_INVALID_ARGUMENT')
  }
  t.same(fs.readFileSync(file), before, 'what is refused leaves the file')

  // Closing a snapshot waits for a dump of it.
  const slow = new PassThrough({ highWaterMark: 1 })
  const kept = db.snapshot()
  const dumping = db.dump(slow, { snapshot: kept, compression: 'none' })
  const fifth = new Loam(place())
  await new Promise((resolve) => slow.once('readable', resolve))
  const closing = kept.close()
  await db.put('later still', 'x')
  await fifth.load(slow)
  await dumping
  await closing
  t.is(await fifth.get('later still'), undefined)
  await fifth.close()

  // There is one load at a time.
  const sixth = new Loam(place())
  await sixth.open()
  await db.dump(file, { compression: 'none' })
  const plain = fs.readFileSync(file)
  const source = new PassThrough()
  let first
  await new Promise((resolve, reject) => { // until a block was loaded
    first = sixth.load(source, { progress: (done) => { if (done > 0) resolve() } })
    first.catch(reject)
    source.write(plain.subarray(0, plain.length - 1000))
  })
  const busy = await sixth.load(Readable.from([])).catch((err) => err)
  t.is(busy.code, 'LEVEL_IN_USE')
  source.end(plain.subarray(-1000))
  await first
  await same(t, db, sixth)
  await sixth.close()

  // No file in the database's directory is made, or cut off.
  fs.writeFileSync(path.join(db.location, 'mine'), 'mine')
  const link = place()
  fs.symlinkSync(db.location, link)
  for (const name of ['dump', 'mine']) {
    for (const at of [db.location, link]) {
      for (const resume of [false, true]) {
        const refused = await db.dump(path.join(at, name), { resume }).catch((err) => err)
        t.is(refused.code, 'LEVEL_INVALID_ARGUMENT')
        t.ok(/lies in the database/.test(refused.message))
      }
    }
  }
  t.is(fs.readFileSync(path.join(db.location, 'mine'), 'utf8'), 'mine')
  t.notOk(fs.existsSync(path.join(db.location, 'dump')))

  for (const wrong of [undefined, '', 1, {}]) {
    t.ok(await db.dump(wrong).catch((err) => err) instanceof TypeError)
    t.ok(await db.load(wrong).catch((err) => err) instanceof TypeError)
  }
  const gone = new Writable({ write (chunk, encoding, done) { done(new RangeError('no more')) } })
  t.ok(await db.dump(gone).catch((err) => err) instanceof RangeError)
  const fourth = new Loam(place())
  const cut = new Readable({ read () { this.destroy(new RangeError('no more')) } })
  t.ok(await fourth.load(cut).catch((err) => err) instanceof RangeError)
  t.is((await fourth.load(Readable.from([Buffer.alloc(500000, 'x')])).catch((err) => err)).code,
    'LEVEL_CORRUPTION')
  await fourth.load(fs.createReadStream(file))
  t.is((await db.dump(file, { signal: AbortSignal.abort() }).catch((err) => err)).code,
    'LEVEL_ABORTED')
  t.is((await fourth.load(place()).catch((err) => err)).code, 'ENOENT')
  for (const each of [db, to, second, third, fourth]) await each.close()
  t.is((await db.dump(file).catch((err) => err)).code, 'LEVEL_DATABASE_NOT_OPEN')
})

test('streams of objects that are no bytes', async (t) => {
  const db = await filled()
  const chunks = []
  await db.dump(new Writable({ write (chunk, encoding, callback) {
    chunks.push(chunk)
    callback()
  } }))
  const other = new Loam(place())
  await other.open()
  for (const object of [{}, 5, new Map()]) {
    for (const before of [[], chunks.slice(0, 1)]) {
      const err = await other.load(Readable.from([...before, object])).then(
        () => null, (err) => err)
      t.ok(err instanceof TypeError, 'refused')
    }
  }
  await other.load(Readable.from(chunks))
  await same(t, db, other)
  await Promise.all([db.close(), other.close()])
})

test('a dump that waits for its stream is cancelled', async (t) => {
  const db = await filled()
  const deaf = () => new Writable({ highWaterMark: 1, write () {} })
  const aborting = new AbortController()
  const aborted = db.dump(deaf(), { signal: aborting.signal }).catch((err) => err)
  const thrown = db.dump(deaf(), { progress () {
    throw new RangeError('enough')
  } }).catch((err) => err)
  aborting.abort()
  t.is((await aborted).code, 'LEVEL_ABORTED')
  t.is((await thrown).message, 'enough')
  await db.close()
})

test('closing ends dumps and loads that wait for their streams', async (t) => {
  const db = await filled()
  const users = db.keyspace('users')
  const working = [
    db.dump(new Writable({ highWaterMark: 1, write () {} })),
    users.dump(new Writable({ highWaterMark: 1, write () {} })),
    db.load(new PassThrough(), { overwrite: true })
  ].map((promise) => promise.catch((err) => err))
  await new Promise(setImmediate)
  await db.close()
  for (const each of working) t.is((await each).code, 'LEVEL_DATABASE_NOT_OPEN')
})

test('a dump to a stream in a worker warns of no descriptors', async (t) => {
  const worker = new Worker(`
    const { Loam } = require(${JSON.stringify(path.join(__dirname, '..'))})
    const { PassThrough } = require('stream')
    const { parentPort } = require('worker_threads')
    process.on('warning', (warning) => parentPort.postMessage(warning.message))
    const db = new Loam(${JSON.stringify(place())})
    db.put('a', 'b').then(() => db.dump(new PassThrough().resume())).then(() => db.close())
  `, { eval: true })
  const warnings = []
  worker.on('message', (message) => warnings.push(message))
  const code = await new Promise((resolve, reject) => worker.once('exit', resolve).once(
    'error', reject))
  t.is(code, 0)
  t.same(warnings, [])
})

test('processes started meanwhile do not inherit the pipe of a dump', {
  skip: process.platform === 'linux' ? false : 'the system has no pipe2()'
}, (t) => {
  const addon = path.join(path.dirname(require.resolve('..')), 'npm',
    `${process.platform}-${process.arch}`, 'loamdb.node')
  t.ok(fs.readFileSync(addon).includes('\0pipe2\0'), 'made with its flags')
  t.end()
})
