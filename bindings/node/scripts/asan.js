'use strict'

// Runs tests of the addon with AddressSanitizer and UndefinedBehaviorSanitizer,
// in a copy of the package below build/ whose addon is compiled with them. Node
// itself is not: the sanitizers' runtime is preloaded. Its reports of leaks are
// off, as V8 ends without freeing; signals are left to Node and Go.

const { execFileSync, spawnSync } = require('child_process')
const fs = require('fs')
const path = require('path')
const { compile, target } = require('./build')

const root = path.join(__dirname, '..')
const copy = path.join(root, '..', '..', 'build', 'node-asan')
const platform = path.join(copy, 'npm', path.basename(target))
const TESTS = ['api', 'backups', 'changes', 'dump', 'engine', 'errors', 'follower', 'ingest',
  'lifetimes', 'order', 'pool', 'suite', 'terminate', 'transactions', 'values']

fs.rmSync(copy, { recursive: true, force: true })
fs.mkdirSync(platform, { recursive: true })
for (const name of fs.readdirSync(root)) {
  if (name === 'node_modules') fs.symlinkSync(path.join(root, name), path.join(copy, name))
  else if (name !== 'npm') fs.cpSync(path.join(root, name), path.join(copy, name),
    { recursive: true })
}
fs.copyFileSync(path.join(target, 'libloam.so'), path.join(platform, 'libloam.so'))
compile(path.join(platform, 'loamdb.node'), ['-O1', '-g', '-fno-omit-frame-pointer',
  '-fsanitize=address,undefined', '-fno-sanitize-recover=all'])

const runtime = (name) => execFileSync(process.env.CC || 'cc', [`-print-file-name=${name}`],
  { encoding: 'utf8' }).trim()
const { status } = spawnSync(process.execPath, [path.join(copy, 'scripts', 'test.js'), ...TESTS], {
  stdio: 'inherit',
  env: {
    ...process.env,
    LD_PRELOAD: `${runtime('libasan.so')} ${runtime('libubsan.so')}`,
    ASAN_OPTIONS: 'detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:' +
      'use_sigaltstack=0',
    LOAM_T2: undefined
  }
})
process.exitCode = status ?? 1
