'use strict'

// Builds the native half for this platform into npm/<platform>, the engine's
// library beside it. Needs a C compiler, and Go unless LOAM_LIBRARY names a
// library that is already built.

const { execFileSync } = require('child_process')
const fs = require('fs')
const path = require('path')

const root = path.join(__dirname, '..')
const repository = path.join(root, '..', '..')
const target = path.join(root, 'npm', `${process.platform}-${process.arch}`)

function fail (sentence) {
  console.error(`build: ${sentence}`)
  process.exit(1)
}

// The directory of node_api.h: that of this Node, or of the package node-api-headers.
function headers () {
  const installed = path.join(path.dirname(process.execPath), '..', 'include', 'node')
  if (fs.existsSync(path.join(installed, 'node_api.h'))) return installed
  try {
    return require('node-api-headers').include_dir
  } catch {
    return fail(
      `node_api.h is neither in ${installed} nor in the package node-api-headers ` +
      '(npm install node-api-headers)')
  }
}

function library () {
  if (process.env.LOAM_LIBRARY) return path.resolve(process.env.LOAM_LIBRARY)
  try {
    execFileSync('go', ['version'], { stdio: 'ignore' })
  } catch {
    return fail(
      'Go is not installed (https://go.dev/dl); LOAM_LIBRARY=/path/to/libloam.so uses a library ' +
      'that is already built')
  }
  return made('libloam.so')
}

// A file that cabi/lib.mk makes with Go.
function made (name) {
  execFileSync('make', ['-s', '-f', 'cabi/lib.mk', 'GO=go', `build/lib/${name}`],
    { cwd: repository, stdio: 'inherit' })
  return path.join(repository, 'build', 'lib', name)
}

// The command loam: the one beside a library that is already built, or a new one.
function command () {
  const beside = path.join(path.dirname(process.env.LOAM_LIBRARY || ''), 'loam')
  if (process.env.LOAM_LIBRARY && fs.existsSync(beside)) return path.resolve(beside)
  return made('loam')
}

// Replaced by renaming: a running process may have the old file mapped.
function install (from, name) {
  const to = path.join(target, name)
  const temporary = `${to}.new`
  fs.copyFileSync(from, temporary)
  fs.renameSync(temporary, to)
}

// For other sources that are compiled against Node-API.
exports.compilerFlags = () => ['-I', headers()]

function compile (output, optimization) {
  const sources = fs.readdirSync(path.join(root, 'src')).filter(
    (name) => name.endsWith('.c')).sort()
  const flags = ['-std=gnu11', ...optimization, '-Wall', '-Wextra', '-fPIC', '-shared',
    '-fvisibility=hidden', '-pthread']
  if (process.platform === 'darwin') flags.push('-undefined', 'dynamic_lookup')
  else flags.push('-Wl,-z,nodelete') // worker threads would unload it under the library's feet
  // Loads on old systems, too: see the header.
  if (process.platform === 'linux') {
    flags.push('-include', path.join(repository, 'cabi', 'glibc.h'), '-Wl,--no-as-needed',
      '-l:libpthread.so.0', '-l:libdl.so.2')
  }
  const includes = ['-I', path.join(repository, 'cabi'), '-I', headers()]
  try {
    execFileSync(process.env.CC || 'cc',
      [...flags, ...includes, '-o', output, ...sources.map((name) => path.join(root, 'src', name)),
        '-ldl'], { stdio: 'inherit' })
  } catch (err) {
    fail(err.code === 'ENOENT' ? `the C compiler ${process.env.CC || 'cc'} is not installed` :
      'the addon does not compile')
  }
}

function main () {
  if (!fs.existsSync(path.join(target, 'package.json'))) {
    fail(`there is no package for ${process.platform}-${process.arch}`)
  }
  const output = path.join(target, 'loamdb.node.tmp')
  compile(output, process.platform === 'darwin' ? ['-O2', '-g0'] : ['-O2', '-g0', '-Wl,-s'])
  install(output, 'loamdb.node')
  fs.unlinkSync(output)
  install(library(), process.platform === 'darwin' ? 'libloam.dylib' : 'libloam.so')
  install(command(), 'loam')
}

exports.compile = compile
exports.target = target

if (require.main === module) main()
