'use strict'

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

exports.keyspaceExists = (name) => new ModuleError(`The keyspace '${name}' exists`, { code: 'LEVEL_DATABASE_EXISTS' })

exports.tooLarge = (message) => new ModuleError(message, { code: 'LEVEL_TOO_LARGE' })

exports.decodeError = (message, cause) => new ModuleError(message, { code: 'LEVEL_DECODE_ERROR', cause })

exports.notOpen = (method) => new ModuleError(`Database is not open: cannot call ${method}()`, { code: 'LEVEL_DATABASE_NOT_OPEN' })

exports.iteratorNotOpen = () => new ModuleError('Iterator is not open: cannot read after close()', { code: 'LEVEL_ITERATOR_NOT_OPEN' })

exports.hookFailed = (method, cause) => new ModuleError(`The prewrite hook failed on ${method}()`, { code: 'LEVEL_HOOK_ERROR', cause })

exports.transactionDone = () => new ModuleError('The transaction was committed or rolled back', { code: 'LEVEL_TRANSACTION_DONE' })

exports.cacheNotOpen = () => new ModuleError('Cache is not open: cannot use cache after close()', { code: 'LEVEL_CACHE_NOT_OPEN' })

// Among values there may be the Error that reading one gave.
exports.isError = (value) => typeof value === 'object' && value instanceof Error
