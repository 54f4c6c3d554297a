'use strict'

// Opens what other engines and earlier versions of Loam wrote.

const test = require('tape')
const crypto = require('crypto')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { Loam } = require('..')

const testdata = path.join(__dirname, '..', '..', '..', 'testdata')
const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-golden-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

function varint (n) {
  const bytes = []
  for (; n >= 128; n = Math.floor(n / 128)) bytes.push(n % 128 + 128)
  return Buffer.from([...bytes, n])
}

const folders = fs.readdirSync(testdata).filter((name) => name.includes('-'))
test('folders', (t) => {
  t.ok(folders.filter((name) => name.startsWith('native-')).length >= 2 && folders.length >= 5,
    folders.join())
  t.end()
})

for (const folder of folders) {
  for (const state of ['closed', 'killed']) {
    test(`${folder}, ${state}`, async (t) => {
      const location = path.join(root, `${folder}-${state}`)
      fs.cpSync(path.join(testdata, folder, state), location, { recursive: true })
      // A keyspace a line, with its name; the default one has none where it is alone.
      const lines = fs.readFileSync(path.join(testdata, folder, 'expected'), 'utf8').trim().split(
        '\n')
      const expected = lines.map((line) => line.split(' ').length === 2 ? 'default ' + line : line)
      for (let round = 0; round < 2; round++) { // the second time what the first opening left
        const db = new Loam(location, { keyEncoding: 'buffer', valueEncoding: 'buffer' })
        await db.open()
        const found = []
        for (const name of db.keyspaces()) {
          const hash = crypto.createHash('sha256')
          let n = 0
          for await (
            const entry of db.keyspace(
              name, { keyEncoding: 'buffer', valueEncoding: 'buffer' }).iterator()) {
            for (const part of entry) hash.update(varint(part.length)).update(part)
            n++
          }
          found.push(`${name} ${n} ${hash.digest('hex')}`)
        }
        t.same(found, expected)
        await db.close()
      }
    })
  }
}
