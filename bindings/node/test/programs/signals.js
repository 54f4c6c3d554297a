'use strict'

// Reads and writes while a child floods this process with SIGUSR2, for which
// libuv installs a handler without a stack of its own.

const { spawn } = require('child_process')
const { Loam } = require('../..')

async function main (location, milliseconds) {
  let signals = 0
  process.on('SIGUSR2', () => signals++)
  const db = new Loam(location)
  await db.open()
  for (let i = 0; i < 2000; i++) db.putSync(String(i), 'v'.repeat(100))
  const flood = spawn(process.execPath, ['-e', `for (;;) process.kill(${process.pid}, 'SIGUSR2')`],
    { stdio: 'ignore' })
  const end = Date.now() + milliseconds
  let reads = 0
  while (Date.now() < end || signals === 0) { // the child takes its time to begin
    for (let i = 0; i < 2000; i++, reads++) {
      if (db.getSync(String(i))?.length !== 100) throw new Error('wrong value')
    }
    db.iteratorSync().all()
    await Promise.all(
      [db.iterator().all(), db.getMany(['1', '2']), db.put('x', 'y', { sync: true })])
    await new Promise(setImmediate)
  }
  flood.kill('SIGKILL')
  await db.close()
  console.log(JSON.stringify({ signals, reads, blocked: blockedSignals() }))
}

// Of the threads that did not begin as Node's: whether they block all signals.
function blockedSignals () {
  const fs = require('fs')
  if (process.platform !== 'linux') return null
  let blocked = 0
  for (const task of fs.readdirSync('/proc/self/task')) {
    const mask = /SigBlk:\s*(\w+)/.exec(fs.readFileSync(`/proc/self/task/${task}/status`, 'utf8'))[
      1]
    if (BigInt('0x' + mask) & (1n << 11n)) blocked++ // SIGUSR2 is 12
  }
  return blocked
}

main(process.argv[2], Number(process.argv[3]))
