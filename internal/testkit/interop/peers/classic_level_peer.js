// Plays a script of operations on a LevelDB directory through classic-level.
//
// usage: classic_level_peer.js DIR [--kill]
//
// The operations are those of plyvel_peer.py.
'use strict'
const { ClassicLevel } = require('classic-level')
const readline = require('node:readline')

const options = {
  keyEncoding: 'buffer',
  valueEncoding: 'buffer',
  writeBufferSize: 64 << 10,
  maxFileSize: 1 << 20
}
const unhex = (s) => s === '-' ? Buffer.alloc(0) : Buffer.from(s, 'hex')
const hex = (b) => b.length === 0 ? '-' : b.toString('hex')

async function main () {
  const path = process.argv[2]
  let db = new ClassicLevel(path, options)
  await db.open()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [op, key, value] = line.split(' ')
    if (op === 'put') await db.put(unhex(key), unhex(value))
    else if (op === 'del') await db.del(unhex(key))
    else if (op === 'compact') await db.compactRange(Buffer.from([0]), Buffer.alloc(64, 0xff))
    else if (op === 'reopen') {
      await db.close()
      db = new ClassicLevel(path, options)
      await db.open()
    } else if (op === 'dump') {
      let out = ''
      for await (const [k, v] of db.iterator()) out += hex(k) + ' ' + hex(v) + '\n'
      await new Promise((resolve) => process.stdout.write(out + 'end\n', resolve))
    } else throw new Error('unknown operation ' + op)
  }
  if (process.argv.includes('--kill')) process.kill(process.pid, 'SIGKILL')
  await db.close()
}

main().catch((err) => {
  console.error(err)
  process.exit(1)
})
