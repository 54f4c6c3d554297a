'use strict'

// loamdb beside classic-level. Every case runs on both in short rounds that
// alternate, so that a busy machine slows both; the ratio of the medians counts.
//
//   node bench.js [--rounds N] [--json FILE] [--html FILE] [CASE...]

const fs = require('fs')
const os = require('os')
const path = require('path')
const { performance } = require('perf_hooks')
const { Loam } = require('../../../bindings/node')
const { ClassicLevel } = require('classic-level')

const KEYS = 20000 // read and written
const MANY = 200000 // of the uncached reads: 23 MB beside a cache of 1 MiB
const PEERS = { loamdb: Loam, 'classic-level': ClassicLevel }

const key = (i) => String(i).padStart(16, '0')
// 100 bytes that compress to about half of that
const digits = (i) => String(Math.imul(i, 0x9e3779b1) >>> 0).padStart(10, '0')
const value = (i) => (digits(i) + digits(i + 1e6) + digits(i + 2e6) + digits(i + 3e6) +
  digits(i + 4e6)).repeat(2)

let seed = 1
function random (n) {
  seed = (seed * 1103515245 + 12345) & 0x7fffffff
  return seed % n
}

// name, target as a ratio of times, operations of a round, and the round itself
const cases = [
  ['getSync string', 0.8, 20000, (db, n) => {
    for (let i = 0; i < n; i++) db.getSync(key(random(KEYS)))
  }],
  ['getSync buffer', 0.75, 20000, (db, n) => {
    const options = { keyEncoding: 'buffer', valueEncoding: 'buffer' }
    for (let i = 0; i < n; i++) db.getSync(keyBuffers[random(KEYS)], options)
  }],
  ['await get, cached', 0.1, 3000, async (db, n) => {
    for (let i = 0; i < n; i++) await db.get(key(random(KEYS)))
  }],
  ['100 concurrent gets, uncached', 0.4, 5000, async (db, n) => {
    for (let i = 0; i < n; i += 100) {
      await Promise.all(Array.from({ length: 100 }, () => db.get(key(random(MANY)))))
    }
  }, { cacheSize: 1024 * 1024, keys: MANY }],
  ['await put, no sync', 0.15, 2000, async (db, n) => {
    for (let i = 0; i < n; i++) await db.put(key(random(KEYS)), value(i))
  }],
  ['batch(1000)', 0.6, 5000, async (db, n) => {
    for (let i = 0; i < n; i += 1000) {
      await db.batch(
        Array.from({ length: 1000 }, (_, j) =>
          ({ type: 'put', key: key(random(KEYS)), value: value(i + j) })))
    }
  }],
  ['nextv(1000) string', 0.65, KEYS, (db) => scan(db, {})],
  ['nextv(1000) buffer', 0.35, KEYS,
    (db) => scan(db, { keyEncoding: 'buffer', valueEncoding: 'buffer' })],
  ['for await, entries', 0.6, KEYS, (db) => walk(db.iterator())],
  ['for await, keys', 0.4, KEYS, (db) => walk(db.keys())],
  ['for await, 10 of a range', 1, 1000, async (db, n) => {
    for (let i = 0; i < n; i++) await walk(db.iterator({ gte: key(random(KEYS)), limit: 10 }))
  }]
]

const keyBuffers = Array.from({ length: KEYS }, (_, i) => Buffer.from(key(i)))

async function scan (db, options) {
  const iterator = db.iterator(options)
  while ((await iterator.nextv(1000)).length > 0);
  await iterator.close()
}

async function walk (iterator) {
  let n = 0
  for await (const item of iterator) n += item.length
  return n
}

async function load (db, keys) {
  for (let i = 0; i < keys; i += 1000) {
    await db.batch(
      Array.from({ length: 1000 }, (_, j) =>
        ({ type: 'put', key: key(i + j), value: value(i + j) })))
  }
  await db.compactRange(key(0), key(keys))
}

async function open (root, { keys = KEYS, ...options } = {}) {
  const dbs = {}
  for (const [name, Peer] of Object.entries(PEERS)) {
    const location = path.join(root, `${name}-${keys}`)
    const fresh = !fs.existsSync(location)
    dbs[name] = new Peer(
      location, { cacheSize: 64 * 1024 * 1024, writeBufferSize: 16 * 1024 * 1024, ...options })
    await dbs[name].open()
    if (fresh) await load(dbs[name], keys)
  }
  return dbs
}

const quantile = (sorted, q) =>
  Math.round(sorted[Math.min(Math.floor(q * sorted.length), sorted.length - 1)])

async function measure (root, [name, target, n, round, options], rounds) {
  const dbs = await open(root, options)
  const times = {}
  for (let r = -2; r < rounds; r++) { // two to warm up
    for (const peer of Object.keys(dbs)) {
      const start = performance.now()
      await round(dbs[peer], n)
      const ns = (performance.now() - start) * 1e6 / n
      if (r >= 0) (times[peer] ??= []).push(ns)
    }
  }
  for (const db of Object.values(dbs)) await db.close()
  const result = { case: name, ns_per_op: {}, quartiles: {} }
  for (const [peer, list] of Object.entries(times)) {
    list.sort((x, y) => x - y)
    result.ns_per_op[peer] = quantile(list, 0.5)
    result.quartiles[peer] = [quantile(list, 0.25), quantile(list, 0.75)]
  }
  result.ratio = Math.round(1000 * result.ns_per_op.loamdb / result.ns_per_op[
    'classic-level']) / 1000
  result.target = target
  result.reached = result.ratio <= target
  return result
}

function makeReport (results, rounds) {
  return {
    schema: 1,
    tool: 'bench/bindings/node',
    peer: 'classic-level',
    engines: Object.keys(PEERS),
    environment: {
      time: new Date().toISOString().replace(/\.\d+/, ''),
      os: process.platform,
      kernel: os.release(),
      arch: process.arch,
      cores: os.cpus().length,
      node: process.version,
      loamdb: require('../../../bindings/node/package.json').version,
      'classic-level': require('classic-level/package.json').version,
      load: os.loadavg()[0]
    },
    keys: KEYS,
    rounds,
    results
  }
}

// The page draws itself from the report in it.
function page (report) {
  const [before, after] = fs.readFileSync(path.join(__dirname, '../page.html'), 'utf8').split(
    '>null<')
  return `${before}>${JSON.stringify(report).replaceAll('<', '\\u003c')}<${after}`
}

async function main () {
  const args = process.argv.slice(2)
  const take = (flag) => args.includes(flag) ? args.splice(args.indexOf(flag), 2)[1] : undefined
  const rounds = Number(take('--rounds') ?? 9)
  const json = take('--json')
  const html = take('--html')
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-bench-'))
  const results = []
  console.log('case                            loamdb ns  classic-level ns   ratio  target')
  for (const c of cases) {
    if (args.length > 0 && !args.some((a) => c[0].includes(a))) continue
    const r = await measure(root, c, rounds)
    results.push(r)
    console.log(r.case.padEnd(30), String(r.ns_per_op.loamdb).padStart(10),
      String(r.ns_per_op['classic-level']).padStart(17),
      r.ratio.toFixed(3).padStart(7), String(r.target).padStart(7), r.reached ? '' : ' missed')
  }
  const report = makeReport(results, rounds)
  if (json !== undefined) fs.writeFileSync(json, JSON.stringify(report, null, 2) + '\n')
  if (html !== undefined) fs.writeFileSync(html, page(report))
  fs.rmSync(root, { recursive: true, force: true })
}

main().catch((err) => {
  console.error(err)
  process.exitCode = 1
})
