'use strict'

const fs = require('fs')
const os = require('os')
const ModuleError = require('module-error')

class AbortError extends ModuleError {
  constructor (cause) {
    super('Operation has been aborted', { code: 'LEVEL_ABORTED', cause })
  }

  // Whatever the class is called, as with the errors of AbortSignal.
  get name () {
    return 'AbortError'
  }
}

exports.AbortError = AbortError

exports.invalidArgument = (message) => new ModuleError(message, { code: 'LEVEL_INVALID_ARGUMENT' })

exports.keyspaceExists = (name) => new ModuleError(`The keyspace '${name}' exists`,
  { code: 'LEVEL_DATABASE_EXISTS' })

exports.tooLarge = (message) => new ModuleError(message, { code: 'LEVEL_TOO_LARGE' })

exports.decodeError = (message, cause) => new ModuleError(
  message, { code: 'LEVEL_DECODE_ERROR', cause })

exports.notOpen = (method) => new ModuleError(`Database is not open: cannot call ${method}()`,
  { code: 'LEVEL_DATABASE_NOT_OPEN' })

exports.iteratorNotOpen = () => new ModuleError('Iterator is not open: cannot read after close()',
  { code: 'LEVEL_ITERATOR_NOT_OPEN' })

exports.hookFailed = (method, cause) => new ModuleError(`The prewrite hook failed on ${method}()`,
  { code: 'LEVEL_HOOK_ERROR', cause })

exports.transactionDone = () => new ModuleError('The transaction was committed or rolled back',
  { code: 'LEVEL_TRANSACTION_DONE' })

// Puts what made open() fail into the message of abstract-level's error, and the cause beside it.
exports.tellCause = function (err, cause) {
  if (err?.code !== 'LEVEL_DATABASE_NOT_OPEN' || !(cause instanceof Error) ||
    err.message.endsWith(cause.message)) return
  const { message, stack } = err
  err.message = `${message}: ${cause.message}`
  err.stack = String(stack).replace(message, () => err.message)
  Object.defineProperty(err, 'cause', { value: cause, configurable: true, writable: true })
}

// What a database that does not exist lacks, when it is its directory.
exports.withDirectory = function (err, location) {
  if (err.code !== 'LEVEL_DATABASE_MISSING' || fs.existsSync(location)) return err
  return Object.assign(new ModuleError(`${err.message}: no such file or directory`,
    { code: err.code }), { errno: -os.constants.errno.ENOENT, path: location })
}

exports.cacheNotOpen = () => new ModuleError('Cache is not open: cannot use cache after close()',
  { code: 'LEVEL_CACHE_NOT_OPEN' })

// Among values there may be the Error that reading one gave.
exports.isError = (value) => typeof value === 'object' && value instanceof Error

// How many characters differ.
function distance (a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1))
    }
    row = next
  }
  return row[b.length]
}

// Refuses options with names that are not among those known.
function checkNames (options, known) {
  if (Object(options) !== options) return // no options, as in abstract-level
  for (const name of Object.keys(options)) {
    if (known.includes(name) || options[name] === undefined) continue
    const lower = name.toLowerCase()
    const nearest = known.reduce((a, b) => distance(lower, b.toLowerCase()) < distance(
      lower, a.toLowerCase()) ? b : a)
    throw exports.invalidArgument(`There is no option '${name}'; did you mean '${nearest}'?`)
  }
}

exports.checkNames = checkNames
