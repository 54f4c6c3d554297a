'use strict'

// abstract-level's own suite in a worker thread.

const { Worker } = require('worker_threads')
const path = require('path')

new Worker(path.join(__dirname, 'suite.js')).on('exit', (code) => {
  process.exitCode = code
})
