'use strict'

const { engineOptions } = require('./binding')
const { Cache, Resources } = require('./cache')
const { invalidArgument } = require('./errors')

const LEVELS = { '-4': 'debug', 0: 'info', 4: 'warn', 8: 'error' }

// Set by other means, or not by this name.
const NOT_TAKEN = new Set(['errorIfMissing', 'createDirs', 'comparator'])

// The compaction filter, by name, that removes the keys beginning with one of the prefixes.
function prefixFilter (...prefixes) {
  const list = prefixes.map((prefix) => Buffer.from(prefix).toString('hex').replace(/../g, '%$&'))
  return 'prefix:' + list.join(',')
}

// Functions could not be called from the engine's threads.
function checkNames ({ compactionFilter }) {
  if (compactionFilter === undefined || compactionFilter === null || typeof compactionFilter === 'string') return
  throw invalidArgument('The compaction filter must be a name, such as prefixFilter() returns')
}

function comparatorPair ({ comparator }) {
  if (comparator === undefined || comparator === null) return []
  if (typeof comparator !== 'string') throw invalidArgument('The comparator must be the name of a built-in order')
  return ['comparator', comparator]
}

// The options that the engine knows, as an array of alternating names and
// values. As with LevelDB, a number out of range becomes the nearest in it.
async function enginePairs (options) {
  const known = await engineOptions()
  checkNames(options)
  const pairs = comparatorPair(options)
  for (const [key, { name, min, max }] of known) {
    let value = options[key]
    if (value === undefined || value === null || NOT_TAKEN.has(key)) continue
    if (typeof value === 'number' && max > min) value = Math.min(Math.max(value, min), max)
    if (key === 'compression' && typeof value === 'boolean') value = value ? 'snappy' : 'none'
    pairs.push(name, String(value))
  }
  return pairs
}

// What open() is asked to create. As in classic-level, directories above too.
function creationPairs ({ createIfMissing, readOnly, createDirs }) {
  const create = createIfMissing && !readOnly
  return ['error_if_missing', String(!create), 'create_dirs', String(createDirs ?? true)]
}

function cacheOf ({ cache, resources }) {
  if (resources !== undefined && resources !== null) {
    if (!(resources instanceof Resources)) throw invalidArgument("The option 'resources' must be a Resources")
    if (cache !== undefined && cache !== null) throw invalidArgument("The options 'resources' and 'cache' exclude each other: resources have a cache")
    return resources.native()
  }
  if (cache === undefined || cache === null) return undefined
  if (!(cache instanceof Cache)) throw invalidArgument("The option 'cache' must be a Cache")
  return cache.native()
}

// A function of level and message, for the native side: (number, string).
function loggerOf ({ logger }) {
  if (logger === undefined || logger === null) return undefined
  if (typeof logger === 'function') return (level, message) => logger(LEVELS[level] ?? 'info', message)
  if (Object.values(LEVELS).every((name) => typeof logger[name] === 'function')) {
    return (level, message) => logger[LEVELS[level] ?? 'info'](message)
  }
  throw invalidArgument("The option 'logger' must be a function, or have the methods debug, info, warn and error")
}

exports.prefixFilter = prefixFilter
exports.enginePairs = enginePairs
exports.creationPairs = creationPairs
exports.cacheOf = cacheOf
exports.loggerOf = loggerOf
