'use strict'

// A directory goes back and forth between LevelDB, as classic-level has it, and Loam.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { ClassicLevel } = require('classic-level')
const { Loam } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-interop-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

for (const compress of [true, false]) {
  test(`back and forth, compression ${compress}`, async (t) => {
    const location = path.join(root, String(compress))
    const expected = new Map()
    for (const [round, Level] of [ClassicLevel, Loam, ClassicLevel, Loam, ClassicLevel].entries()) {
      const db = new Level(location, { compression: compress, writeBufferSize: 65536 })
      t.is(JSON.stringify(await db.iterator().all()), JSON.stringify([...expected].sort()),
        `${Level.name} reads ${expected.size}`)
      const operations = []
      for (let i = 0; i < 2000; i++) {
        const key = `key-${String((i * 7 + round * 1000) % 5000).padStart(5, '0')}`
        if (i % 5 === 4) {
          operations.push({ type: 'del', key })
          expected.delete(key)
        } else {
          const value = `${round} ${i} `.repeat(20)
          operations.push({ type: 'put', key, value })
          expected.set(key, value)
        }
      }
      for (let i = 0; i < operations.length; i += 100) await db.batch(operations.slice(i, i + 100))
      if (round % 2 === 1) await db.compactRange('a', 'z')
      await db.close()
    }
  })
}
