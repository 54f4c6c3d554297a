'use strict'

// Workers that end while they share a database with the main thread, which goes on with it: one
// of each kind of operation, and with LOAM_T2 twelve more of each.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { once } = require('events')
const { spawn } = require('child_process')
const { Worker } = require('worker_threads')
const { Backups, Loam } = require('..')
const { kinds } = require('./programs/pending')

const program = path.join(__dirname, 'programs', 'pending.js')
const [rounds, mixtures, most] = process.env.LOAM_T2 ? [13, 260, 65] : [1, 8, 3]
const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-terminate-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

let db
let id = 0

test('a database with a backup', async (t) => {
  db = new Loam(path.join(root, 'shared'), { multithreading: true, walRetentionBytes: '1MiB' })
  await db.open()
  for (let i = 0; i < 3000; i++) db.putSync(`key${i}`, `${i}`.repeat(100))
  await db.flush()
  const backups = await Backups.open(path.join(root, 'backups'))
  await backups.create(db)
  await backups.close()
  t.is(await db.get('key1'), '1'.repeat(100))
})

// The main thread has the key 'held' until release() is called.
async function hold () {
  let release
  const released = new Promise((resolve) => { release = resolve })
  let ended
  await new Promise((resolve, reject) => {
    ended = db.transaction(async (tx) => {
      await tx.put('held', 'x')
      resolve()
      await released
    }, { lock: true, lockTimeout: Infinity })
    ended.catch(reject)
  })
  return () => {
    release()
    return ended
  }
}

async function end (some, turns) {
  const release = await hold()
  const worker = new Worker(program, { workerData: { root, kinds: some, turns, id: ++id } })
  try {
    await Promise.race([once(worker, 'message'), once(worker, 'error').then(([err]) => {
      throw err
    })])
    await worker.terminate()
    // What waited in the worker meets its end.
    db.putSync(`main${id}`, 'sync')
    await db.put(`main${id}`, 'async')
    // Its transactions that waited for 'held' have given their locks back.
    await db.transaction(async (tx) => {
      for (const key of ['own1', 'own2', 'own3']) await tx.put(key, 'free')
    }, { lock: true, lockTimeout: 1, retries: 0 })
  } finally {
    await release()
  }
  await db.transaction(async (tx) => {
    for (const key of ['own1', 'own2', 'own3', 'held']) await tx.put(key, 'main')
  }, { lock: true, lockTimeout: Infinity })
  if (await db.get(`main${id}`) !== 'async') throw new Error('the database lost a write')
}

test('a worker is terminated with operations under way', async (t) => {
  let ended = 0
  for (let round = 0; round < rounds; round++) {
    for (const kind of kinds) {
      await end([kind], (round + kind.length) % 9)
      ended++
    }
  }
  for (let i = 0; i < mixtures; i++, ended++) {
    await end(kinds.filter((_, j) => (i + j) % 5 === 0), i % 9)
  }
  t.pass(`${ended} workers`)
})

test('a database of a terminated worker alone is closed with it', async (t) => {
  const names = { load: 'load', bulkLoad: 'bulk', open: 'opened', close: 'closed',
    closeWaits: 'busy', repair: 'repaired' }
  for (const [kind, name] of Object.entries(names)) {
    for (let turns = 0; turns < most; turns++) {
      await end([kind], turns)
      const again = new Loam(path.join(root, `${name}-${id}`))
      await again.open()
      await again.close()
    }
  }
  t.pass('they open again')
})

test('the shared database is whole', async (t) => {
  await db.verify()
  await db.close()
  const again = new Loam(path.join(root, 'shared'), { createIfMissing: false })
  t.is(await again.get(`main${id}`), 'async')
  t.is(await again.get('key2999'), '2999'.repeat(100))
  await again.close()
})

for (const some of [kinds, ...(rounds > 1 ? kinds.map((kind) => [kind]) : [])]) {
  test(`a process exits with operations under way: ${some}`, async (t) => {
    for (let turns = 0; turns < 3; turns++) {
      const args = JSON.stringify({ root, kinds: some, turns, id: ++id, ending: 'exit' })
      const child = spawn(process.execPath, [program, args],
        { stdio: ['ignore', 'inherit', 'inherit'] })
      t.same(await once(child, 'exit'), [7, null], `behind ${turns} turns`)
    }
  })
}
