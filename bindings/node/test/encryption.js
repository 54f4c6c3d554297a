'use strict'

// Encrypted databases.

const test = require('tape')
const { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } = require('fs')
const { join } = require('path')
const { tmpdir } = require('os')
const { Loam } = require('..')

const root = mkdtempSync(join(tmpdir(), 'loam-encryption-'))
test.onFinish(() => rmSync(root, { recursive: true, force: true }))
const temporary = () => join(mkdtempSync(join(root, 'each-')), 'db')
const failure = (promise) => promise.then(() => null, (err) => err.cause ?? err)

const OLD = '00112233445566778899aabbccddeeff'.repeat(2)
const NEW = 'ff'.repeat(32)
const MARK = 'what nobody may read'

function files (dir) {
  return readdirSync(dir).map((name) => join(dir, name))
    .flatMap((file) => statSync(file).isDirectory() ? files(file) : [file])
}

test('nothing is in clear, and keys matter', async function (t) {
  const location = temporary()
  const keys = join(root, 'keys')
  writeFileSync(keys, OLD)
  let db = new Loam(location, { encryption: `file:${keys}`, compression: 'none' })
  await db.batch(Array.from({ length: 300 }, (_, i) =>
    ({ type: 'put', key: MARK + i, value: MARK })))
  await db.flush()
  await db.put('in the log', MARK)
  const [old] = await db.keysInUse()
  t.equal(old.provider, 'key')
  await db.close()
  t.ok(files(location).length >= 4)
  t.same(files(location).filter((file) => readFileSync(file).includes(MARK)), [])

  for (const encryption of [undefined, `key:${NEW}`, 'passphrase:another']) {
    const err = await failure(new Loam(location, { encryption }).open())
    t.equal(err?.code, 'LEVEL_ENCRYPTION', String(err))
    t.ok(err.message.includes(old.id))
  }
  const err = await failure(new Loam(location, { encryption: `key:${OLD}0` }).open())
  t.equal(err?.code, 'LEVEL_INVALID_ARGUMENT')
  t.notOk(err.message.includes(OLD))

  writeFileSync(keys, `${NEW}\n${OLD}\n`)
  db = new Loam(location, { encryption: `file:${keys}` })
  await db.rekey()
  const uses = await db.keysInUse()
  t.equal(uses.length, 1)
  t.notEqual(uses[0].id, old.id)
  await db.close()
  db = new Loam(location, { encryption: `key:${NEW}` })
  t.equal(await db.get('in the log'), MARK)
  t.equal(await db.get(MARK + 7), MARK)
  await db.close()
})

test('a database that was not encrypted', async function (t) {
  const location = temporary()
  let db = new Loam(location)
  await db.put('a', '1')
  t.equal((await failure(db.rekey()))?.code, 'LEVEL_INVALID_ARGUMENT')
  await db.close()
  const refused = new Loam(location, { encryption: `key:${OLD}` })
  t.equal((await failure(refused.open()))?.code, 'LEVEL_ENCRYPTION')
  db = new Loam(location, { encryption: `key:${OLD}`, allowClear: true })
  await db.rekey()
  t.same((await db.keysInUse()).map((use) => use.provider), ['key'])
  await db.close()
  db = new Loam(location, { encryption: `key:${OLD}` })
  t.equal(await db.get('a'), '1')
  await db.close()
})
