'use strict'

const fs = require('fs')
const net = require('net')
const { Transform } = require('stream')
const { pipeline } = require('stream/promises')
const { native, engineOptions } = require('./binding')
const { watch, watched } = require('./jobs')
const { assertOpen } = require('./sync')
const { invalidArgument, notOpen, AbortError } = require('./errors')

// As in loam.h
const CONTINUE = 1
const OVERWRITE = 1

const DUMPING = ['snapshot', 'compression', 'resume']

// What the library says of a dump, in the manner of JavaScript.
function described (text) {
  const { id, created, sequence, keyspaces, bytes, size } = JSON.parse(text)
  return {
    id,
    created: new Date(created * 1000),
    sequence,
    keyspaces: keyspaces.map(
      (k) => ({ name: k.name, comparator: k.comparator, mergeOperator: k.merge_operator,
        expires: k.expires, entries: k.entries })),
    bytes,
    size
  }
}

// Of a stream of objects: an object that is no bytes, which ends the process where a stream of
// bytes is given one, is an error.
function bytesOnly () {
  return new Transform({
    writableObjectMode: true,
    transform (chunk, encoding, callback) {
      if (typeof chunk === 'string' || ArrayBuffer.isView(chunk)) callback(null, chunk)
      else callback(
        new TypeError('A dump is a stream of bytes: strings, Buffers, TypedArrays or DataViews'))
    }
  })
}

// Our end of a pipe as a stream. Bun (1.4) gives a socket of a descriptor no data, and lets the
// process end; its streams of files wait in a thread.
function endOfPipe (fd, reading) {
  if (process.versions.bun === undefined) {
    return new net.Socket({ fd, readable: reading, writable: !reading })
  }
  return reading ? fs.createReadStream('', { fd }) : fs.createWriteStream('', { fd })
}

// Runs a job on a file, by its path, or on a stream: between that and the job is a pipe.
// db, undefined if there is none, ends the work when it closes.
async function run (db, file, mode, writing, options, names, start) {
  const { signal, progress } = watched(options, 'progress', ...names)
  if (signal?.aborted) throw new AbortError(signal.reason)
  const begin = (fd) => {
    if (db !== undefined) assertOpen(db, writing ? 'dump' : 'load')
    return start(fd)
  }
  const wait = async (job) => described(await native.jobResult(job))
  if (typeof file === 'string' && file !== '') {
    const handle = await fs.promises.open(file, mode, 0o600)
    try {
      return await watch(begin(handle.fd), wait, signal, progress)
    } finally {
      await handle.close()
    }
  }
  if (typeof file?.[writing ? 'write' : 'pipe'] !== 'function') {
    throw new TypeError(
      "The argument 'file' must be the path of a file or a " +
      `${writing ? 'Writable' : 'Readable'} stream`)
  }
  const [from, to] = native.pipe()
  const [ours, theirs] = writing ? [from, to] : [to, from]
  let job
  try {
    job = begin(theirs)
  } catch (error) {
    native.pipeClose(ours)
    throw error
  } finally {
    native.pipeClose(theirs)
  }
  const socket = endOfPipe(ours, writing)
  // Ends the pipe, too, for which a cancelled job may wait, and the stream.
  const ending = new AbortController()
  const cancel = () => {
    native.jobCancel(job)
    ending.abort()
  }
  const working = watch(job, wait, signal, progress, cancel)
  // A stream that fails ends the job, and a job that fails the stream.
  let failure = null
  const ends = writing ? [socket, file] : file.readableObjectMode ? [file, bytesOnly(), socket] :
    [file, socket]
  const moving = pipeline(...ends, { signal: ending.signal }).catch((error) => {
    failure = { error }
    cancel()
  })
  let closed = false
  const resource = {
    close: () => {
      closed = true
      cancel()
      return Promise.allSettled([working, moving])
    }
  }
  db?.attachResource(resource)
  signal?.addEventListener('abort', cancel)
  try {
    const info = await working
    await moving
    if (failure !== null && writing) throw failure.error // else the stream has more than the dump
    return info
  } catch (error) {
    ending.abort()
    await moving
    if (closed) throw notOpen(writing ? 'dump' : 'load')
    if (signal?.aborted) throw new AbortError(signal.reason)
    const own = failure !== null &&
      ['LEVEL_ABORTED', 'LEVEL_CORRUPTION', 'LEVEL_IO_ERROR'].includes(error.code)
    if (own && !['EPIPE', 'ERR_STREAM_PREMATURE_CLOSE', 'ABORT_ERR'].includes(failure.error.code)) {
      throw failure.error
    }
    throw error
  } finally {
    signal?.removeEventListener('abort', cancel)
    db?.detachResource(resource)
  }
}

exports.dump = function (db, context, file, options, snapshot) {
  const resume = Boolean(options?.resume)
  if (resume && typeof file !== 'string') {
    throw new TypeError('A dump is resumed in a file, by its path')
  }
  const compression = options?.compression === false ? 'none' : options?.compression ?? undefined
  // Before a file is cut off.
  if (compression !== undefined && !['none', 'snappy', 'zstd'].includes(compression)) {
    throw invalidArgument("The option 'compression' must be 'none', 'snappy' or 'zstd'")
  }
  if (typeof file === 'string' && file !== '') native.dumpCheck(context, file)
  const mode = resume ? fs.constants.O_RDWR | fs.constants.O_CREAT : 'w+'
  return run(db, file, mode, true, options, DUMPING, (fd) => native.dumpStart(context, snapshot,
    compression, resume ? CONTINUE : 0, fd))
}

exports.load = function (db, context, file, options) {
  return run(db, file, 'r', false, options, ['overwrite'], (fd) => native.loadStart(
    context, options?.overwrite ? OVERWRITE : 0, fd))
}

exports.verifyDump = async function (file, options) {
  await engineOptions() // loads the engine
  return run(undefined, file, 'r', false, options, [], (fd) => native.dumpVerifyStart(fd))
}
