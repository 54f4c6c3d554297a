'use strict'

const test = require('tape')
const { mkdtempSync, rmSync } = require('fs')
const { join } = require('path')
const { tmpdir } = require('os')
const { Loam } = require('..')

const root = mkdtempSync(join(tmpdir(), 'loam-merge-'))
test.onFinish(() => rmSync(root, { recursive: true, force: true }))

function fresh (options) {
  return new Loam(join(mkdtempSync(join(root, 'each-')), 'db'),
    { format: 'native', ...options })
}

test('merges append, in order with other writes, and after a reopening', async function (t) {
  const db = fresh({ mergeOperator: 'append' })
  db.merge('k', '1')
  await db.merge('k', '2', { sync: true })
  db.mergeSync('k', '3')
  db.batchSync([{ type: 'merge', key: 'k', value: '4' }, { type: 'put', key: 'p', value: '0' },
    { type: 'merge', key: 'p', value: '1' }])
  t.is(await db.get('k'), '1,2,3,4')
  t.is(db.getSync('p'), '0,1')
  t.same(await db.iterator().all(), [['k', '1,2,3,4'], ['p', '0,1']])
  await db.close()
  const again = new Loam(db.location)
  t.is(await again.get('k'), '1,2,3,4', 'by the stored name')
  await again.close()
})

test('merges fail with codes', async function (t) {
  const none = fresh()
  await none.open()
  t.throws(() => none.mergeSync('k', '1'), (err) => err.code === 'LEVEL_NO_MERGE_OPERATOR')
  await none.merge('k', '1').then(() => t.fail('merged'), (err) =>
    t.is(err.code, 'LEVEL_NO_MERGE_OPERATOR'))
  await none.close()
  const old = fresh({ format: 'leveldb', mergeOperator: 'append' })
  await old.open()
  t.throws(() => old.mergeSync('k', '1'), (err) => err.code === 'LEVEL_NEEDS_NATIVE')
  await old.close()
  const sums = fresh({ mergeOperator: 'uint64add' })
  await sums.merge('k', 'not eight')
  await sums.get('k').then(() => t.fail('added'), (err) => t.is(err.code, 'LEVEL_MERGE_FAILED'))
  await sums.close()
})
