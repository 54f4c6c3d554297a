'use strict'

// Ends of threads and processes with work under way, garbage collection and
// signals. LOAMDB_TERMINATE is the number of terminated workers, 20, or 500 with LOAM_T2.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { execFile } = require('child_process')
const { Worker } = require('worker_threads')
const { Loam } = require('..')

const terminations = Number(process.env.LOAMDB_TERMINATE || (process.env.LOAM_T2 ? 500 : 20))
const endings = process.env.LOAM_T2 ? 5 : 2
const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-lifecycle-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

const program = (name) => path.join(__dirname, 'programs', name)

function run (args) {
  return new Promise((resolve) => {
    execFile(process.execPath, args, { timeout: 600000 }, (err, stdout, stderr) => {
      resolve({ code: err === null ? 0 : err.code, signal: err?.signal ?? null, stdout, stderr })
    })
  })
}

async function usable (t, location) {
  const db = new Loam(location)
  await db.open()
  await db.put('after', 'wards')
  t.is(await db.get('after'), 'wards', 'the database opens and works')
  await db.close()
}

test(`worker.terminate() x ${terminations} with work under way`, async (t) => {
  const location = path.join(root, 'terminate')
  for (let i = 0; i < terminations; i++) {
    const worker = new Worker(program('busy.js'), { workerData: { location } })
    await new Promise((resolve, reject) => {
      let rounds = 0
      worker.on('message', () => { if (++rounds > i % 2) resolve() }).once('error', reject)
    })
    await worker.terminate()
  }
  await usable(t, location)
})

test('process.exit() in a worker with work under way', async (t) => {
  const location = path.join(root, 'worker-exit')
  for (let i = 0; i < endings; i++) {
    const worker = new Worker(program('busy.js'), { workerData: { location, ending: 'exit' } })
    const code = await new Promise((resolve, reject) => worker.once('exit', resolve).once(
      'error', reject))
    if (code !== 7) t.fail(`exit code ${code}`)
  }
  await usable(t, location)
})

for (const [ending, code] of [['exit', 7], ['close-exit', 7], ['close', 0], ['leave', 0]]) {
  test(`a process that ends with work under way: ${ending}`, async (t) => {
    const location = path.join(root, ending)
    for (let i = 0; i < endings; i++) {
      const result = await run([program('busy.js'), location, ending])
      if (result.code !== code || result.stderr !== '') t.same(result, { code }, `round ${i}`)
    }
    await usable(t, location)
  })
}

test('SIGKILL loses nothing that was written', async (t) => {
  const location = path.join(root, 'kill')
  const source = `
    const { Loam } = require(${JSON.stringify(path.join(__dirname, '..'))})
    const db = new Loam(${JSON.stringify(location)})
    db.open().then(async () => {
      for (let i = 0; i < 1000; i++) await db.put(String(i), 'x')
      process.kill(process.pid, 'SIGKILL')
    })`
  t.is((await run(['-e', source])).signal, 'SIGKILL')
  const db = new Loam(location)
  t.is((await db.keys().all()).length, 1000)
  await db.close()
})

test('garbage collection of what was not closed', async (t) => {
  const result = await run(['--expose-gc', program('gc.js'), path.join(root, 'gc')])
  t.is(result.stderr, '')
  t.is(result.stdout, '["database","iterator","left","snapshot","sync"] v\n')
})

test('a flood of signals', async (t) => {
  const result = await run([program('signals.js'), path.join(root, 'signals'), '2000'])
  t.is(result.stderr, '')
  t.is(result.code, 0)
  const { signals, reads, blocked } = JSON.parse(result.stdout)
  t.comment(`${signals} signals handled, ${reads} reads, ${blocked} threads with signals blocked`)
  t.ok(signals > 0 && reads > 0)
  if (blocked !== null) t.ok(blocked > 0, "the library's own threads block signals")
})
