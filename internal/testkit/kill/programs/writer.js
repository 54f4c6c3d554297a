'use strict'

// Writes the batches that it reads, and acknowledges them: see ../program.go.
// Batches with odd numbers are written synchronously, the others not.
//
// usage: node writer.js PACKAGE DIRECTORY

const fs = require('fs')
const { Loam } = require(process.argv[2])

function say (number) {
  const b = Buffer.alloc(4)
  b.writeUInt32LE(number)
  fs.writeSync(1, b)
}

function operations (frame) {
  const list = []
  let at = 5
  const text = () => {
    const n = frame.readUInt32LE(at)
    at += 4 + n
    return frame.subarray(at - n, at)
  }
  while (at < frame.length) {
    const type = frame[at++] === 1 ? 'put' : 'del'
    const key = text()
    list.push(type === 'put' ? { type, key, value: text() } : { type, key })
  }
  return list
}

async function main () {
  const db = new Loam(process.argv[3], {
    keyEncoding: 'buffer', valueEncoding: 'buffer',
    writeBufferSize: 64 << 10, maxFileSize: 64 << 10, l0Compaction: 2, cacheSize: 1 << 20,
      format: process.env.LOAM_FORMAT
  })
  await db.open()
  const last = await db.get(Buffer.from('!last'))
  say(last === undefined ? 0 : Number(last.toString()))
  let rest = Buffer.alloc(0)
  for await (const chunk of process.stdin) {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32LE(0)) {
      const end = 4 + rest.readUInt32LE(0)
      const frame = rest.subarray(4, end)
      rest = rest.subarray(end)
      const number = frame.readUInt32LE(0)
      const sync = frame[4] === 1
      if (number % 2 === 1) db.batchSync(operations(frame), { sync })
      else await db.batch(operations(frame), { sync })
      say(number)
    }
  }
  await db.close()
}

main()
