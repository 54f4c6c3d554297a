'use strict'

// Run with --expose-gc: objects that are dropped without being closed.

const { Loam, Cache } = require('../..')

async function main (location) {
  const turn = () => new Promise(setImmediate)
  const collected = new Set()
  const registry = new FinalizationRegistry((name) => collected.add(name.split(' ')[0]))
  const living = new Loam(`${location}-living`)
  await living.put('a', '1')
  for (let round = 0; round < 20; round++) {
    ;(() => {
      const left = living.iteratorSync()
      left.next()
      registry.register(left, `left ${round}`)
    })()
    await (async () => {
      // A logger that refers to its database keeps it no more than nothing does.
      const db = new Loam(`${location}-${round}`,
        { logger: (level, message) => console.log(db.location, level, message),
          cache: new Cache('1MiB') })
      await db.open()
      for (let i = 0; i < 100; i++) await db.put(String(i), 'v')
      const snapshot = db.snapshot()
      const iterator = db.iterator({ snapshot })
      await iterator.next()
      const sync = db.iteratorSync()
      sync.next()
      registry.register(db, `database ${round}`)
      registry.register(iterator, `iterator ${round}`)
      registry.register(sync, `sync ${round}`)
      registry.register(snapshot, `snapshot ${round}`)
    })()
    global.gc()
    await turn()
    global.gc()
  }
  for (let i = 0; i < 100 && collected.size < 5; i++) {
    global.gc()
    await turn()
  }
  await living.close()
  // A database that was dropped has let go of its directory.
  const db = new Loam(`${location}-0`)
  for (let i = 0; ; i++) {
    try {
      await db.open()
      break
    } catch (err) {
      if (i === 6000) throw err
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  console.log(JSON.stringify([...collected].sort()), await db.get('7'))
  await db.close()
}

main(process.argv[2])
