'use strict'

// abstract-level's own suite. Runs in the main thread and, through
// worker.js, in a worker.

const test = require('tape')
const suite = require('abstract-level/test')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { Loam } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-suite-'))
let n = 0

suite({
  test,
  factory: (options) => new Loam(path.join(root, String(n++)), options)
})

test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))
