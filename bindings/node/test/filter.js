'use strict'

// Compaction filters, which have names here.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { Loam, prefixFilter } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-filter-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

for (const format of ['leveldb', 'native']) {
  test(`a prefix filter removes what begins so, ${format}`, async (t) => {
    const db = new Loam(path.join(root, format),
      { format, compactionFilter: prefixFilter('tmp/', 'ä', Buffer.from(',%')) })
    await db.open()
    await db.put('tmp/old', '0')
    const snapshot = db.snapshot()
    await db.batch(['tmp/1', 'tmp', 'ä1', ',%', ',', 'z'].map(
      (key) => ({ type: 'put', key, value: key })))
    await db.compact()
    t.same(await db.keys().all(), [',', 'tmp', 'tmp/old', 'z'])
    t.is(await db.get('tmp/old', { snapshot }), '0')
    await snapshot.close()
    await db.compact()
    t.same(await db.keys().all(), [',', 'tmp', 'z'])
    t.same((await db.metrics()).filter, { removed: 4, changed: 0, failed: 0 })
    await db.close()
    await db.open({ compactionFilter: 'none' })
    await db.put('tmp/1', 'x')
    await db.compact()
    t.is(await db.get('tmp/1'), 'x')
    await db.close()
  })
}

test('prefixes are bytes, in all views', (t) => {
  t.is(prefixFilter(new Uint16Array([0x6161]), new DataView(new ArrayBuffer(3), 1), 'ab'),
    'prefix:%61%61,%00%00,%61%62')
  t.end()
})

test('names that there are not', async (t) => {
  for (const compactionFilter of ['suffix:a', 'prefix:', 'prefix:%4', () => true, 7, {}]) {
    try {
      await new Loam(path.join(root, 'wrong'), { compactionFilter }).open()
      t.fail(`opened with ${String(compactionFilter)}`)
    } catch (err) {
      t.is((err.cause ?? err).code, 'LEVEL_INVALID_ARGUMENT', String(compactionFilter))
    }
  }
})
