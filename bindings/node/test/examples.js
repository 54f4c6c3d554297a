'use strict'

// The programs of examples/node print what they say.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { spawnSync } = require('child_process')

const examples = path.join(__dirname, '..', '..', '..', 'examples', 'node')
const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-examples-'))
fs.symlinkSync(path.join(__dirname, '..'), path.join(root, 'loamdb'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

const programs = fs.readdirSync(examples).filter((name) => name.endsWith('.js'))

test('there are examples', (t) => {
  t.ok(programs.length > 0)
  t.end()
})

for (const name of programs) {
  test(name, (t) => {
    const source = fs.readFileSync(path.join(examples, name), 'utf8')
    const wanted = source.split('// Prints:\n')[1].replace(/^\/\/ /gm, '')
    const { stdout, stderr } = spawnSync(process.execPath,
      [path.join(examples, name), path.join(root, `db-${name}`)],
      { encoding: 'utf8', env: { ...process.env, NODE_PATH: root } })
    t.is(stderr, '')
    t.is(stdout, wanted)
    t.end()
  })
}
