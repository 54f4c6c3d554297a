'use strict'

// Finds the native half of the package and the engine's library beside it.

const fs = require('fs')
const path = require('path')

const platform = `${process.platform}-${process.arch}`

// Whether the process runs on musl instead of glibc.
function isMusl () {
  if (process.platform !== 'linux' || process.report === undefined) return false
  process.report.excludeNetwork = true
  return process.report.getReport().header.glibcVersionRuntime === undefined
}

function locate () {
  const inside = path.join(__dirname, 'npm', platform, 'loamdb.node')
  if (fs.existsSync(inside)) return inside
  try {
    return require.resolve(`@loamdb/${platform}/loamdb.node`)
  } catch {
    if (isMusl()) {
      throw new Error('loamdb needs glibc: the Go runtime inside it cannot be loaded into a process that uses musl (Alpine Linux)')
    }
    throw new Error(`loamdb has no prebuilt binary for ${platform}: the package @loamdb/${platform} is not installed`)
  }
}

const file = locate()

exports.native = require(file)
// Nothing reads the library before a database is opened.
exports.library = process.env.LOAM_LIBRARY || path.join(path.dirname(file), 'libloam.so')
