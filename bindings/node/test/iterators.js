'use strict'

// A `for await` over an iterator hands over what was read ahead beside abstract-level's code, and
// sublevels read without it. Both do what that code does, whatever comes between two steps.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { isDeepStrictEqual } = require('util')
const { AbstractIterator, AbstractSublevel } = require('abstract-level')
const { Loam } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-iterators-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

const plain = (iterator) => AbstractIterator.prototype[Symbol.asyncIterator].call(iterator)
const key = (i) => String(i).padStart(4, '0')

const mayFail = {
  name: 'may-fail',
  format: 'utf8',
  encode: String,
  decode (value) {
    if (value.endsWith('13')) throw new Error('a value that cannot be decoded')
    return Number(value)
  }
}

let seed = 1
function random (n) {
  seed = (seed * 1103515245 + 12345) & 0x7fffffff
  return (seed >> 8) % n
}

// What an iterator is asked to do: [name, argument].
function program () {
  return Array.from({ length: 2 + random(30) }, () => {
    switch (random(12)) {
      case 0: return ['next']
      case 1: return ['nextv', 1 + random(random(2) === 0 ? 5 : 1500)]
      case 2: return ['seek', key(random(2500))]
      case 3: return ['together', 2 + random(3)]
      case 4: return random(4) === 0 ? ['all'] : ['steps', 40]
      case 5: return random(6) === 0 ? ['close'] : ['step']
      case 6: return random(8) === 0 ? ['return'] : ['steps', 7]
      case 7: return random(8) === 0 ? ['throw'] : ['step']
      case 8: return random(12) === 0 ? ['abort'] : ['step']
      case 9: return random(12) === 0 ? ['snapshot'] : ['step']
      default: return ['step']
    }
  })
}

async function told (fn) {
  try {
    return await fn()
  } catch (err) {
    return err.code ?? err.message
  }
}

async function run (steps, iterator, walk, controller, snapshot) {
  const log = []
  for (const [name, argument] of steps) {
    log.push([name, await told(async () => {
      switch (name) {
        case 'next': return iterator.next()
        case 'nextv': return iterator.nextv(argument)
        case 'all': return iterator.all()
        case 'seek': return iterator.seek(argument)
        case 'close': return iterator.close()
        case 'step': return walk.next()
        case 'steps': {
          const some = []
          for (let i = 0; i < argument; i++) some.push(await walk.next())
          return some
        }
        case 'together':
          return Promise.all(Array.from({ length: argument }, () => told(() => walk.next())))
        case 'return': return walk.return('returned')
        case 'throw': return walk.throw(new Error('thrown'))
        case 'abort': return controller.abort()
        case 'snapshot': return snapshot?.close()
      }
    }), iterator.count])
  }
  await iterator.close()
  return log
}

test('for await is that of abstract-level, whatever comes between', async (t) => {
  const db = new Loam(path.join(root, 'programs'), { valueEncoding: 'utf8' })
  await db.batch(Array.from({ length: 2500 }, (_, i) =>
    ({ type: 'put', key: key(i), value: String(i) })))
  const [above, sublevel, nested, below] = ['r', 's', ['s', 'n'], 't'].map((name) =>
    db.sublevel(name))
  for (const level of [above, sublevel, nested, below]) {
    await level.batch(Array.from({ length: 300 }, (_, i) =>
      ({ type: 'put', key: key(i), value: String(i) })))
  }
  const pairs = [[db, db], [db, db], [sublevel, new AbstractSublevel(db, 's', {})],
    [nested, new AbstractSublevel(db, ['s', 'n'], {})]]
  let different = 0
  for (let i = 0; i < 600 && different === 0; i++) {
    const steps = program()
    const options = { reverse: random(4) === 0, gte: key(0), lt: key(9999) }
    if (random(5) === 0) options.gt = key(random(200))
    if (random(5) === 0) options.lte = key(100 + random(300))
    if (random(3) === 0) options.limit = random(random(2) === 0 ? 20 : 2000)
    if (random(4) === 0) options.valueEncoding = mayFail
    if (random(4) === 0) options.keyEncoding = 'buffer'
    if (random(6) === 0) options.highWaterMarkBytes = random(500)
    if (options.keyEncoding === 'buffer') {
      for (const name of ['gt', 'gte', 'lt', 'lte']) {
        if (name in options) options[name] = Buffer.from(options[name])
      }
    } else if (random(3) === 0) {
      delete options.gte
      delete options.lt
    }
    const withSnapshot = random(4) === 0
    const kind = ['iterator', 'keys', 'values'][random(3)]
    const [ours, theirs] = pairs[random(pairs.length)]
    const logs = []
    for (const [of, walkOf] of [[ours, (it) => it[Symbol.asyncIterator]()], [theirs, plain]]) {
      const controller = new AbortController()
      const snapshot = withSnapshot ? db.snapshot() : undefined
      const iterator = of[kind]({ ...options, snapshot, signal: controller.signal })
      const seeks = options.keyEncoding === 'buffer' ? steps.map(([name, argument]) =>
        [name, name === 'seek' ? Buffer.from(argument) : argument]) : steps
      logs.push(await run(seeks, iterator, walkOf(iterator), controller, snapshot))
      await snapshot?.close()
    }
    if (!isDeepStrictEqual(...logs)) {
      different++
      const at = logs[0].findIndex((entry, j) => !isDeepStrictEqual(entry, logs[1][j]))
      t.same(logs[0][at], logs[1][at], `${kind} ${JSON.stringify(options)}: ${JSON.stringify(
        steps.slice(0, at + 1))}`)
    }
  }
  t.is(different, 0)
  await db.close()
})

test('keys and values are those of the entries, large ones included', async (t) => {
  const db = new Loam(path.join(root, 'parts'), { valueEncoding: 'buffer' })
  const sizes = Array.from({ length: 60 }, (_, i) => i % 7 === 0 ? 20000 + i : i)
  await db.batch(sizes.map((size, i) =>
    ({ type: 'put', key: key(i) + (i % 5 === 0 ? 'ü' : ''), value: Buffer.alloc(size, i) })))
  for (const options of [{}, { reverse: true }, { keyEncoding: 'buffer', valueEncoding: 'utf8' },
    { limit: 17 }]) {
    const entries = await db.iterator(options).all()
    t.is(entries.length, options.limit ?? 60)
    for (const [kind, at] of [['keys', 0], ['values', 1]]) {
      const want = entries.map((entry) => entry[at])
      t.same(await db[kind](options).all(), want)
      const walked = []
      for await (const item of db[kind](options)) walked.push(item)
      t.same(walked, want)
    }
  }
  await db.close()
})
