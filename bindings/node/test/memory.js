'use strict'

// No memory: each allocation of the addon fails once in each operation. A resolved promise means
// that the operation took effect; every other outcome is an error.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { execFileSync, spawnSync } = require('child_process')
const { compilerFlags } = require('../scripts/build')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-memory-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

const glibc = process.platform === 'linux' &&
  process.report.getReport().header.glibcVersionRuntime !== undefined

test('every allocation fails once',
  { skip: glibc ? false : "the program replaces glibc's malloc" }, (t) => {
  const addon = path.join(root, 'fail.node')
  execFileSync(process.env.CC || 'cc', ['-shared', '-fPIC', '-O1', ...compilerFlags(), '-o', addon,
    path.join(__dirname, 'programs', 'fail.c')])
  const { status, signal, stdout, stderr } = spawnSync(process.execPath,
    [path.join(__dirname, 'programs', 'memory.js'), addon, path.join(root, 'db')], {
    env: { ...process.env, LD_PRELOAD: addon }, encoding: 'utf8', timeout: 600000
  })
  t.same([status, signal, stderr], [0, null, ''])
  const { failures, wrong } = JSON.parse(stdout)
  t.same(wrong, [])
  t.comment(JSON.stringify(failures))
  for (const name of ['sync put', 'batch', 'clear', 'getMany', 'iterator', 'new database']) {
    t.ok(failures[name] > 0, `${name}: ${failures[name]} failures`)
  }
  t.end()
})
