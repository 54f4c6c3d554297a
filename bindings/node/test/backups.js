'use strict'

// Folders of backups.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { Backups, Loam, ClassicLevel } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-backups-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

let n = 0
const location = () => path.join(root, String(n++))

async function filled (Level = Loam) {
  const db = new Level(location())
  await db.open()
  for (let i = 0; i < 1000; i++) db.putSync(`key${i}`, `${i}`.repeat(20) + Math.random())
  return db
}

const code = (promise) => promise.then(() => undefined, (err) => err.code ?? err)

async function contents (at) {
  const db = new Loam(at, { createIfMissing: false })
  const all = await db.iterator().all()
  await db.close()
  return all
}

for (const Level of [Loam, ClassicLevel]) {
  test(`backups of a ${Level.name}`, async (t) => {
    const db = await filled(Level)
    const before = await db.iterator().all()
    const folder = location()
    const backups = await Backups.open(folder)
    t.is(backups.location, folder)
    t.is(await code(Backups.open(folder)), 'LEVEL_LOCKED')
    const told = []
    const first = await backups.create(db, { progress: (done, total) => told.push([done, total]) })
    t.same(told.at(-1), [first.bytes, first.bytes])
    t.is(first.newBytes, first.bytes)
    t.is(first.id, 1)
    t.is(first.database, db.location)
    t.is(first.format, Level === Loam ? 'native' : 'leveldb')
    t.ok(Math.abs(first.created - Date.now()) < 3600e3 && first.files > 2 && first.error === null)
    await db.compact()
    await backups.create(db)
    const put = db.put('more', '1') // not awaited: create() is
    const third = await backups.create(db)
    await put
    t.ok(third.newBytes < third.bytes / 4, `${third.newBytes} of ${third.bytes}`)
    for (const { id } of await backups.list()) await backups.verify(id)
    const one = location()
    await backups.restore(1, one)
    t.is(await code(backups.restore(1, one)), 'LEVEL_DATABASE_EXISTS')
    const three = location()
    await backups.restore(3, three, { progress () {} })
    t.same(await contents(one), before)
    t.is((await contents(three)).length, before.length + 1)
    await backups.delete(1)
    await backups.keep(1)
    t.same((await backups.list()).map(({ id }) => id), [3])
    for (const gone of [() => backups.verify(1), () => backups.delete(1),
      () => backups.restore(1, location())]) t.is(await code(gone()), 'LEVEL_DATABASE_MISSING')
    await backups.close()
    await backups.close()
    for (const [method, ...args] of [['list'], ['create', db], ['verify', 3],
      ['restore', 3, location()], ['delete', 3], ['keep', 1]]) {
      t.is(await code(backups[method](...args)), 'LEVEL_BACKUPS_NOT_OPEN', method)
    }
    const readers = [await Backups.open(folder, { readOnly: true }),
      await Backups.open(folder, { readOnly: true })]
    await readers[0].verify(3)
    t.is(await code(readers[1].create(db)), 'LEVEL_READONLY')
    for (const reader of readers) await reader.close()
    await db.close()
  })
}

test('what is refused', async (t) => {
  const db = await filled()
  t.is(await code(Backups.open(db.location)), 'LEVEL_NOT_A_DATABASE')
  t.is(await code(Backups.open(location(), { errorIfMissing: true })), 'LEVEL_DATABASE_MISSING')
  for (const wrong of [undefined, '', 1]) t.ok(await code(Backups.open(wrong)) instanceof TypeError)
  t.throws(() => new Backups(), TypeError)
  const backups = await Backups.open(location())
  for (const wrong of [undefined, null, {}, 'db']) {
    t.ok(await code(backups.create(wrong)) instanceof TypeError)
  }
  for (const wrong of [-1, 1.5, '1', undefined, NaN]) {
    for (const method of ['verify', 'delete', 'keep', 'restore']) {
      t.is(await code(backups[method](wrong, location())), 'LEVEL_INVALID_ARGUMENT', method)
    }
  }
  for (const wrong of [-1, 'fast']) {
    t.is(await code(backups.create(db, { bytesPerSecond: wrong })), 'LEVEL_INVALID_ARGUMENT')
  }
  for (const wrong of [{ progress: 1 }, { signal: 'now' }]) {
    t.ok(await code(backups.create(db, wrong)) instanceof TypeError)
  }
  await db.close()
  t.is(await code(backups.create(db)), 'LEVEL_DATABASE_NOT_OPEN')
  await backups.close()
})

test('damage is named', async (t) => {
  const db = await filled()
  const folder = location()
  let backups = await Backups.open(folder)
  const { id } = await backups.create(db)
  await backups.close()
  const data = path.join(folder, 'data')
  const largest = fs.readdirSync(data).sort(
    (a, b) => fs.statSync(path.join(data, b)).size - fs.statSync(path.join(data, a)).size)[0]
  const file = fs.openSync(path.join(data, largest), 'r+')
  fs.writeSync(file, '?!', 1000)
  fs.closeSync(file)
  backups = await Backups.open(folder)
  const to = location()
  for (const method of ['verify', 'restore']) {
    const error = await backups[method](id, method === 'verify' ? {} : to).catch((err) => err)
    t.is(error.code, 'LEVEL_CORRUPTION')
    t.ok(error.message.includes(largest), error.message)
  }
  t.notOk(fs.existsSync(to))
  await backups.close()
  await db.close()
})

test('what ends a backup', async (t) => {
  const db = await filled()
  const folder = location()
  const backups = await Backups.open(folder)
  const slow = { bytesPerSecond: 1000 }
  t.is(await code(backups.create(db, { signal: AbortSignal.abort() })), 'LEVEL_ABORTED')
  t.is(await code(backups.create(db, { ...slow, signal: AbortSignal.timeout(50) })),
    'LEVEL_ABORTED')
  const soon = new AbortController()
  const ended = code(backups.create(db, { ...slow, signal: soon.signal }))
  soon.abort()
  t.is(await ended, 'LEVEL_ABORTED')
  t.ok(await code(backups.create(db, { ...slow, progress () {
    throw new RangeError('enough')
  } })) instanceof RangeError)
  t.same(await backups.list(), [])
  t.same(fs.readdirSync(path.join(folder, 'data')), [])
  // more than the pool has threads
  const many = Array.from({ length: 8 }, () => code(backups.create(db, slow)))
  await db.get('key1')
  let closing
  const running = code(backups.create(db, { ...slow, progress () { closing ??= db.close() } }))
  t.ok(await running)
  await closing
  for (const one of await Promise.all(many)) t.ok(one, String(one))
  await db.open()
  t.ok(await code(backups.create(db, { ...slow, progress () { backups.close() } })))
  await db.close()
})
