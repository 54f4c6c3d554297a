'use strict'

// Finds the native half of the package and the engine's library beside it.

const fs = require('fs')
const path = require('path')
const { createRequire } = require('module')

const platform = `${process.platform}-${process.arch}`

// Whether the process runs on musl instead of glibc.
function isMusl () {
  if (process.platform !== 'linux' || process.report === undefined) return false
  process.report.excludeNetwork = true
  return process.report.getReport().header.glibcVersionRuntime === undefined
}

// The binary in a directory of the package, or in the platform's own package as
// seen from there.
function inPackage (directory) {
  const inside = path.join(directory, 'npm', platform, 'loamdb.node')
  if (fs.existsSync(inside)) return inside
  try {
    return createRequire(path.join(directory, 'index.js')).resolve(
      `@loamdb/${platform}/loamdb.node`)
  } catch {
    return null
  }
}

// A bundler moves this file away from the package, which may still be installed
// where the bundle runs.
function besideBundle () {
  try {
    return inPackage(path.dirname(createRequire(__filename).resolve('loamdb/package.json')))
  } catch {
    return null
  }
}

function locate () {
  const file = inPackage(__dirname) ?? besideBundle()
  if (file !== null) return file
  if (isMusl()) {
    throw new Error(
      'loamdb needs glibc: the Go runtime inside it cannot be loaded into a process that uses ' +
      'musl (Alpine Linux)')
  }
  if (!fs.existsSync(path.join(__dirname, 'loader.js'))) {
    throw new Error(
      'loamdb cannot be bundled, as it has a native part: leave it out of the bundle ' +
      `(esbuild: --external:loamdb) and install it where ${__filename} runs`)
  }
  throw new Error(
    `loamdb has no prebuilt binary for ${platform}: ` +
    `the package @loamdb/${platform} is not installed`)
}

const file = locate()

exports.native = require(file)

const windows = process.platform === 'win32'

exports.command = () => path.join(path.dirname(file), windows ? 'loam.exe' : 'loam')

const engine = { darwin: 'libloam.dylib', win32: 'loam.dll' }[process.platform] ?? 'libloam.so'

// Nothing reads the library before a database is opened. LOAM_LIBRARY is a path,
// relative to the working directory, and never a name that the dynamic linker
// looks for elsewhere.
exports.library = () => path.resolve(process.env.LOAM_LIBRARY ||
  path.join(path.dirname(file), engine))
