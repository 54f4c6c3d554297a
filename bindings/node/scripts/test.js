'use strict'

// Runs the test files, each in a process of its own, or those whose names are
// given. Prints what fails, and one line for each file. Long runs have those of LONG, too.

const { spawn } = require('child_process')
const fs = require('fs')
const path = require('path')

const directory = path.join(__dirname, '..', 'test')
const AT_ONCE = 3
const LONG = ['suite-worker.js']
const chosen = process.argv.slice(2)
const files = fs.readdirSync(directory).filter((name) => name.endsWith('.js') &&
  (chosen.length === 0
    ? process.env.LOAM_T2 || !LONG.includes(name)
    : chosen.includes(path.basename(name, '.js'))))

function run (name) {
  return new Promise((resolve) => {
    const started = Date.now()
    const child = spawn(process.execPath, [path.join(directory, name)],
      { stdio: ['ignore', 'pipe', 'inherit'] })
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text) => { output += text })
    child.on('close', (code, signal) => {
      const passed = /^# pass +(\d+)/m.exec(output)?.[1] ?? '0'
      const ok = code === 0 && signal === null && passed !== '0'
      if (!ok) console.log(output.replace(/^ok .*\n/gm, ''))
      const seconds = ((Date.now() - started) / 1000).toFixed(1)
      console.log(
        `${ok ? 'ok  ' : 'FAIL'} ${name} ${passed} assertions, ${seconds} s` +
        (ok ? '' : `, ended with ${signal ?? code}`))
      resolve(ok)
    })
  })
}

async function main () {
  const next = async () => {
    for (let name; (name = files.shift()) !== undefined;) {
      if (!await run(name)) process.exitCode = 1
    }
  }
  // much of their time is waiting for the disk
  await Promise.all(Array.from({ length: AT_ONCE }, next))
}

main()
