'use strict'

// Keeps every kind of operation under way, in a worker or a process, until it
// is ended from outside; with "exit", ends itself.

const { workerData, parentPort, isMainThread } = require('worker_threads')
const { Loam } = require('../..')

const [location, ending] = isMainThread ? process.argv.slice(2) :
  [workerData.location, workerData.ending]
const ignore = () => {}

async function main () {
  const db = new Loam(location, { cacheSize: 65536, writeBufferSize: 65536, logger: ignore })
  await db.open()
  const value = 'v'.repeat(500)
  for (let i = 0; i < 500; i++) await db.put(String(i), value)

  let round = 0
  const start = () => {
    for (let i = 0; i < 50; i++) {
      db.get(String(i * 7)).catch(ignore)
      db.put(String(i + round), value, { sync: i === 0 }).catch(ignore)
      db.getMany([String(i), 'none']).catch(ignore)
    }
    db.batch(
      Array.from({ length: 300 }, (_, i) => ({ type: 'put', key: String(i), value }))).catch(ignore)
    db.iterator().all().catch(ignore)
    db.values({ reverse: true }).nextv(100).catch(ignore)
    db.clear({ gte: '4', limit: 10 }).catch(ignore)
    db.hasMany(['1', '2'], { snapshot: db.snapshot() }).catch(ignore)
    if (round % 10 === 0) db.compactRange('0', '9').catch(ignore)
    for (const [k] of db.iteratorSync({ limit: 50 })) db.getSync(k)
    db.putSync('sync', value)
    db.flush().catch(ignore)
    db.metrics().catch(ignore)
    round++
    parentPort?.postMessage('busy')
  }
  start()
  if (ending === 'exit') process.exit(7)
  if (ending === 'leave') return
  if (ending === 'close') return db.close()
  if (ending === 'close-exit') {
    db.close().catch(ignore)
    setImmediate(() => process.exit(7))
    return
  }
  setInterval(start, 1)
}

main()
