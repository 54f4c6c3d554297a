'use strict'

const { native } = require('./binding')
const { AbortError, checkNames } = require('./errors')

const PROGRESS_MS = 100

// The options of work that is watched: signal, and those of the names.
exports.watched = function (options, ...names) {
  checkNames(options, ['signal', ...names])
  const signal = options?.signal ?? undefined
  const progress = options?.progress ?? undefined
  if (progress !== undefined && typeof progress !== 'function') {
    throw new TypeError("The option 'progress' must be a function")
  }
  if (signal !== undefined && typeof signal.addEventListener !== 'function') {
    throw new TypeError("The option 'signal' must be an AbortSignal")
  }
  return { signal, progress }
}

// Waits for a job by wait. What progress throws cancels it, as the signal does.
exports.watch = async function (job, wait, signal, progress, cancel = native.jobCancel) {
  let failure = null
  let result
  const abort = () => cancel(job)
  const report = () => {
    if (failure !== null) return
    try {
      progress(...native.jobProgress(job))
    } catch (error) {
      failure = { error }
      abort()
    }
  }
  const timer = progress === undefined ? undefined : setInterval(report, PROGRESS_MS)
  signal?.addEventListener('abort', abort)
  if (signal?.aborted) abort()
  try {
    result = await wait(job)
    if (progress !== undefined) report()
  } catch (error) {
    if (failure === null && signal?.aborted && error.code === 'LEVEL_ABORTED') {
      throw new AbortError(signal.reason)
    }
    failure ??= { error }
  } finally {
    clearInterval(timer)
    signal?.removeEventListener('abort', abort)
  }
  if (failure !== null) throw failure.error
  return result
}
