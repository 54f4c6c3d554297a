#!/usr/bin/env node
'use strict'

// The command loam: the program of that name beside the engine's library.

const { spawn } = require('child_process')
const { command } = require('./loader')

// Ctrl-C reaches the program, too, which says when it has ended.
process.on('SIGINT', () => {})
const program = spawn(command(), process.argv.slice(2), { stdio: 'inherit' })
process.on('SIGTERM', () => program.kill('SIGTERM'))
program.on('error', (err) => {
  console.error(`loam: cannot run ${command()}: ${err.code}`)
  process.exit(3)
})
program.on('exit', (code, signal) => {
  if (signal === null) process.exit(code)
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
})
