'use strict'

// Runs every example of README.md and compares its output with the text below it.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { spawnSync } = require('child_process')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-readme-'))
fs.mkdirSync(path.join(root, 'node_modules'))
fs.symlinkSync(path.join(__dirname, '..'), path.join(root, 'node_modules', 'loamdb'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

const readme = fs.readFileSync(path.join(__dirname, '..', 'README.md'), 'utf8')
const examples = [...readme.matchAll(/```(js|mjs)\n(.*?)```\n\n```text\n(.*?)```/gs)]

test('every example has its output', (t) => {
  t.is(examples.length, readme.match(/```m?js\n/g).length)
  t.end()
})

test('no link leads out of the package', (t) => {
  const links = [...readme.matchAll(/\]\(([^)]*)\)/g)].map(([, link]) => link)
  t.same(links.filter((link) => !/^(https:\/\/|#)/.test(link)), [])
  for (const [, anchor] of links.join('\n').matchAll(/^#(.*)$/gm)) {
    t.ok(readme.match(/^#+ .*$/gm).some((title) => title.replace(/^#+ /, '').toLowerCase().replace(
      / /g, '-') === anchor), anchor)
  }
  t.end()
})

examples.forEach(([, language, source, wanted], i) => {
  test(`example ${i + 1}`, (t) => {
    const file = path.join(root, `example-${i}.${language === 'mjs' ? 'mjs' : 'cjs'}`)
    fs.writeFileSync(file, source)
    const { stdout, stderr } = spawnSync(process.execPath, [file],
      { cwd: root, encoding: 'utf8', timeout: 600000 })
    t.is(stderr, '')
    t.is(stdout, wanted)
    t.end()
  })
})
