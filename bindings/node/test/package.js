'use strict'

// The package as a user gets it: packed, installed into an empty directory,
// required and imported; and its types.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const zlib = require('zlib')
const { execFileSync, spawnSync } = require('child_process')
const { engineOptions } = require('../binding')

const here = path.join(__dirname, '..')
const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-package-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

function node (...args) {
  const { stdout, stderr, status } = spawnSync(process.execPath, args,
    { cwd: root, encoding: 'utf8', timeout: 600000 })
  return status === 0 ? stdout.trim() : `exit ${status}: ${stderr}`
}

test('installs without a compiler and without scripts', (t) => {
  const tarball = execFileSync(process.execPath, [path.join(here, 'scripts', 'pack.js'), root],
    { encoding: 'utf8' }).trim()
  fs.writeFileSync(path.join(root, 'package.json'), '{"private": true}')
  // A PATH with node and npm alone: no compiler, no Go.
  const bin = path.join(root, 'bin')
  fs.mkdirSync(bin)
  fs.symlinkSync(process.execPath, path.join(bin, 'node'))
  fs.symlinkSync('/bin/sh', path.join(bin, 'sh'))
  const npm = execFileSync('which', ['npm'], { encoding: 'utf8' }).trim()
  execFileSync(process.execPath, [fs.realpathSync(npm), 'install', '--ignore-scripts=false',
    '--prefer-offline', tarball], { cwd: root, env: { ...process.env, PATH: bin }, stdio: 'pipe' })
  const installed = JSON.parse(
    fs.readFileSync(path.join(root, 'node_modules', 'loamdb', 'package.json')))
  t.is(installed.scripts, undefined, 'no scripts')
  t.notOk(fs.existsSync(path.join(root, 'node_modules', 'loamdb', 'src')), 'no sources')
  for (const name of ['LICENSE', 'THIRD-PARTY.txt']) {
    t.ok(fs.readFileSync(path.join(root, 'node_modules', 'loamdb', name)).equals(
      fs.readFileSync(path.join(here, '..', '..', name))), name)
  }

  const program =
    "const db = new Loam('db'); await db.put('a', 'b'); " +
    "console.log(await db.get('a')); await db.close()"
  t.is(node('-e', `const { Loam } = require('loamdb'); (async () => { ${program} })()`), 'b',
    'CommonJS')
  t.is(node('--input-type=module', '-e', `import { Loam } from 'loamdb'; ${program}`), 'b',
    'ES module')
  t.is(node('--input-type=module', '-e',
    `import loamdb from 'loamdb'; const { Loam } = loamdb; ${program}`), 'b', 'ES module, default')
  const loam = (...args) => node(path.join(root, 'node_modules', '.bin', 'loam'), ...args)
  t.is(loam('get', 'db', 'a'), 'b', 'the command reads what the package wrote')
  t.is(loam('--version'), `loam version ${installed.version}`, 'its version')
  t.ok(/^exit 3: loam: database does not exist/.test(loam('scan', 'nothing')), 'its exit code')
  // The makefile may have built a command that is not shipped.
  if (process.env.SHIPPED !== '') {
    const licences = zlib.gzipSync(fs.readFileSync(path.join(here, '..', '..', 'THIRD-PARTY.txt')))
    t.ok(fs.statSync(tarball).size - licences.length < 8 << 20,
      'the tarball has at most 8 MiB, the licences of others aside')
  }
  t.end()
})

test('requiring the package starts no thread and loads no library',
  { skip: process.platform !== 'linux' }, (t) => {
  const source = `
    const fs = require('fs')
    const threads = () => fs.readdirSync('/proc/self/task').length
    const before = threads()
    const { Loam } = require('loamdb')
    const loaded = () => fs.readFileSync('/proc/self/maps', 'utf8').includes('libloam')
    console.log(threads() - before, loaded())
    new Loam('db').open().then(() => { console.log(loaded()); process.exit() })`
  t.is(node('-e', source), '0 false\ntrue')
  t.end()
})

test('what cannot be loaded is said in a sentence', (t) => {
  const open = (prepare) =>
    node('-e',
      `${prepare}; const { Loam } = require('loamdb'); ` +
        "new Loam('db').open().catch((err) => console.log(err.cause.message))")
  t.ok(/^loamdb cannot load its library: .*missing\.so/.test(
    open("process.env.LOAM_LIBRARY = '/missing.so'")))
  const libm = execFileSync(
    'sh', ['-c',
      'for d in /lib/*-linux-* /lib64 /usr/lib; do [ -e $d/libm.so.6 ] && echo $d/libm.so.6 && ' +
      'break; done'], { encoding: 'utf8' }).trim()
  t.ok(/is not Loam's library/.test(open(`process.env.LOAM_LIBRARY = '${libm}'`)))
  // A name without a slash is a file here, not one that the dynamic linker finds elsewhere.
  t.ok(open("process.env.LOAM_LIBRARY = 'libm.so.6'").startsWith(
    `loamdb cannot load its library: ${path.join(fs.realpathSync(root), 'libm.so.6')}`))
  t.ok(/no prebuilt binary for plan9-x64/.test(
    node('-e',
      "Object.defineProperty(process, 'platform', { value: 'plan9' }); require('loamdb')")))
  t.ok(/needs glibc/.test(node('-e', `
    Object.defineProperty(process, 'arch', { value: 'none' })
    process.report.getReport = () => ({ header: {} })
    require('loamdb')`)), 'musl')
  t.end()
})

test('a bundle works where the package is, and says so where it is not', (t) => {
  const entry = path.join(root, 'entry.js')
  fs.writeFileSync(
    entry, "const { Loam } = require('loamdb'); const db = new Loam('bundled'); " +
      "db.put('a', 'b').then(() => db.get('a')).then(console.log).then(() => db.close())")
  const elsewhere = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-bundle-'))
  const bundle = (outfile) => require('esbuild').buildSync(
    { entryPoints: [entry], bundle: true, platform: 'node', outfile, logLevel: 'silent' })
  t.same(bundle(path.join(root, 'dist', 'bundle.js')).warnings, [])
  t.is(node(path.join(root, 'dist', 'bundle.js')), 'b')
  bundle(path.join(elsewhere, 'bundle.js'))
  t.ok(/loamdb cannot be bundled.*esbuild: --external:loamdb/.test(
    node(path.join(elsewhere, 'bundle.js'))))
  fs.rmSync(elsewhere, { recursive: true, force: true })
  t.end()
})

const tsc = (...args) => {
  const program = path.join(path.dirname(require.resolve('typescript/package.json')), 'bin', 'tsc')
  return spawnSync(process.execPath, [program, ...args], { cwd: root, encoding: 'utf8' })
}

test('modules: what type-checks also runs; level takes the place of classic-level', (t) => {
  const modules = path.join(root, 'node_modules')
  // What npm makes of {"overrides": {"classic-level": "npm:loamdb"}}.
  for (const name of ['level', 'browser-level']) {
    fs.cpSync(path.join(here, 'node_modules', name), path.join(modules, name), { recursive: true })
  }
  fs.symlinkSync('loamdb', path.join(modules, 'classic-level'))
  for (const name of ['@types', 'undici-types', 'buffer']) {
    const from = path.join(here, 'node_modules', name)
    if (fs.existsSync(from) && !fs.existsSync(path.join(modules, name))) {
      fs.symlinkSync(from, path.join(modules, name))
    }
  }
  fs.copyFileSync(path.join(__dirname, 'types.mts'), path.join(root, 'types.mts'))
  fs.copyFileSync(path.join(__dirname, 'types.ts'), path.join(root, 'types.ts'))
  const options = JSON.parse(fs.readFileSync(path.join(__dirname, 'tsconfig.json')))
  options.compilerOptions.noEmit = false
  options.files = ['types.mts', 'types.ts']
  fs.writeFileSync(path.join(root, 'tsconfig.json'), JSON.stringify(options))
  const { status, stdout } = tsc('-p', root)
  t.is(status, 0, stdout)
  t.is(node(path.join(root, 'types.mjs')), '1 1 1 v true true function')
  t.end()
})

test('index.d.ts has all options', async (t) => {
  const declared = fs.readFileSync(path.join(here, 'index.d.ts'), 'utf8')
  for (const name of (await engineOptions()).keys()) {
    // abstract-level's createIfMissing and errorIfExists; the comparator has another name here
    const inherited = ['errorIfMissing', 'errorIfExists', 'comparator'].includes(name)
    if (!inherited && !declared.includes(`  ${name}?: `)) {
      t.fail(`index.d.ts lacks the option ${name}`)
    }
  }
})
