'use strict'

// Errors have a code of their own, and nothing is made where nothing was asked for.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { execFileSync } = require('child_process')
const { Loam, Cache } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-errors-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

const at = (name) => path.join(root, name)

async function causeOf (location, options) {
  const db = new Loam(location, options)
  try {
    await db.open()
  } catch (err) {
    if (err.code !== 'LEVEL_DATABASE_NOT_OPEN' || !(err.cause instanceof Error)) throw err
    return err.cause
  }
  await db.close()
  return { code: 'none' }
}

async function rejection (promise) {
  return promise.then(() => ({ code: 'none' }), (err) => err)
}

test('codes of what makes open() fail', async (t) => {
  const is = async (code, location, options, name = code) => {
    const err = await causeOf(location, options)
    t.is(err.code, code, `${name}: ${err.message}`)
    return err
  }
  const there = at('there')
  const db = new Loam(there)
  await db.put('a', '1')
  await is('LEVEL_LOCKED', there)
  await db.close()

  const missing = await is('LEVEL_DATABASE_MISSING', at('missing'), { createIfMissing: false })
  t.is(missing.path, at('missing'))
  await is('LEVEL_DATABASE_MISSING', at('missing'), { readOnly: true })
  await is('LEVEL_DATABASE_EXISTS', there, { errorIfExists: true })
  await is('LEVEL_COMPARATOR_MISMATCH', there, { comparator: 'idb_cmp1' })
  await is('LEVEL_INVALID_ARGUMENT', at('missing'), { comparator: 'nosuch' }, 'unknown comparator')
  await is('LEVEL_INVALID_ARGUMENT', at('missing'), { comparator: () => 0 }, 'comparator function')
  await is('LEVEL_INVALID_ARGUMENT', at('missing'), { blockSize: 'many' }, 'option')
  await is('LEVEL_INVALID_ARGUMENT', at('missing'), { logger: {} }, 'logger')
  await is('LEVEL_INVALID_ARGUMENT', at('missing'), { cache: {} }, 'cache')
  await is('LEVEL_INVALID_ARGUMENT', at('missing') + '\0', {}, 'zero byte')

  fs.mkdirSync(at('rocksdb'))
  fs.writeFileSync(at('rocksdb/CURRENT'), 'MANIFEST-000001\n')
  fs.writeFileSync(at('rocksdb/OPTIONS-000005'), '[Version]\n')
  await is('LEVEL_NOT_A_DATABASE', at('rocksdb'))
  fs.writeFileSync(at('file'), '')
  await is('LEVEL_NOT_A_DATABASE', at('file'))
  const below = await is('LEVEL_IO_ERROR', at('file/below'))
  t.is(below.errno, -os.constants.errno.ENOTDIR)
  t.is(below.path, at('file/below'))

  for (const [format, current] of [['leveldb', 'CURRENT'], ['native', 'CURRENT/manifest']]) {
    const db = new Loam(at(format), { format })
    await db.open()
    await db.close()
    fs.writeFileSync(path.join(at(format), current), 'nonsense')
    await is('LEVEL_CORRUPTION', at(format))
  }
})

test('what fails, and what only reads, creates nothing', async (t) => {
  for (const [name, options] of Object.entries({
    readOnly: { readOnly: true },
    createIfMissing: { createIfMissing: false },
    option: { blockSize: 'many' },
    comparator: { comparator: 'nosuch' },
    cache: { cache: 1 },
    logger: { logger: 1 }
  })) {
    t.not((await causeOf(at('nothing/below'), options)).code, 'none', name)
    t.notOk(fs.existsSync(at('nothing')), `${name}: no directory`)
  }
  await rejection(Loam.destroy(at('nothing/below')))
  t.not((await rejection(Loam.repair(at('nothing/below')))).code, 'none')
  t.notOk(fs.existsSync(at('nothing')))
  t.is((await causeOf(at('deep/er'), { createDirs: false })).code, 'LEVEL_IO_ERROR')
  t.notOk(fs.existsSync(at('deep')), 'no directory above')
  t.is((await causeOf(at('deep/er'))).code, 'none', 'created when it was asked for')
})

test('reading only', async (t) => {
  const location = at('readonly')
  const db = new Loam(location)
  await db.put('a', '1')
  await db.close()
  await db.open({ readOnly: true })
  t.is(await db.get('a'), '1')
  t.is((await rejection(db.put('a', '2'))).code, 'LEVEL_READONLY')
  t.is((await rejection(db.clear())).code, 'LEVEL_READONLY')
  try {
    db.putSync('a', '2')
    t.fail('putSync')
  } catch (err) {
    t.is(err.code, 'LEVEL_READONLY')
  }
  await db.close()
})

test('a directory without permission', { skip: process.getuid?.() === 0 ? 'root may everything' :
  false }, async (t) => {
  fs.mkdirSync(at('secret'))
  fs.chmodSync(at('secret'), 0o500)
  const err = await causeOf(at('secret/db'))
  t.is(err.code, 'LEVEL_IO_ERROR')
  t.is(err.errno, -os.constants.errno.EACCES)
  fs.chmodSync(at('secret'), 0o700)
})

// A limit on file sizes stands for a full disk: it needs no privileges.
test('a full disk', { skip: process.platform !== 'linux' }, (t) => {
  const program = `
    const { Loam } = require(${JSON.stringify(path.join(__dirname, '..'))})
    process.on('SIGXFSZ', () => {})
    const db = new Loam(${JSON.stringify(at('full'))}, { walPreallocate: 0 })
    db.open().then(async () => {
      const value = 'x'.repeat(100000)
      let written = 0
      try {
        for (; written < 1000; written++) await db.put(String(written), value)
      } catch (err) {
        const read = (await db.get('0')) === value
        const { code, errno } = err
        console.log(JSON.stringify({ code, errno, read, written: written > 0 }))
      }
      process.exit()
    })`
  const output = execFileSync('sh', ['-c', 'ulimit -f 2000; exec "$0" -e "$1"', process.execPath,
    program], { encoding: 'utf8', timeout: 600000 })
  t.same(JSON.parse(output), { code: 'LEVEL_NO_SPACE', errno: -os.constants.errno.EFBIG,
    read: true, written: true })
  t.end()
})

test('a cache that is closed, and sizes that are none', async (t) => {
  const cache = new Cache('1MiB')
  cache.close()
  cache.close()
  t.is((await causeOf(at('cache'), { cache })).code, 'LEVEL_CACHE_NOT_OPEN')
  for (const size of [-1, 1.5, NaN, 'many', '1MB', undefined, {}]) {
    t.throws(() => new Cache(size), { code: 'LEVEL_INVALID_ARGUMENT' }, String(size))
  }
  t.end()
})
