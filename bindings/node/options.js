'use strict'

const { engineOptions } = require('./binding')
const { Cache, Resources } = require('./cache')
const { invalidArgument, checkNames } = require('./errors')

const LEVELS = { '-4': 'debug', 0: 'info', 4: 'warn', 8: 'error' }

// Set by other means, or not by this name.
const NOT_TAKEN = new Set(['errorIfMissing', 'createDirs', 'comparator'])

// Options of open() besides the engine's. The last three are known to classic-level or
// browser-level, and programs for the package level give them everywhere.
const OPENING = ['createIfMissing', 'multithreading', 'cache', 'resources', 'logger', 'passive',
  'keyEncoding', 'valueEncoding', 'location', 'prefix', 'version']

// Units of which there are fractions.
const DIVISIBLE = new Set(['seconds', 'times'])

// A number of an option that has a range. In LevelDB, and so in a ClassicLevel, a number out of
// range becomes the nearest in it.
function checkNumber (key, value, { min, max, unit }, clamps) {
  const whole = DIVISIBLE.has(unit) || Number.isInteger(value)
  if (whole && value >= min && value <= max) return value
  if (whole && value > 0 && Number.isFinite(value) && clamps) {
    return Math.min(Math.max(value, min), max)
  }
  throw invalidArgument(
    `The option '${key}' must be ${DIVISIBLE.has(unit) ? 'a number' : 'an integer'} ` +
    `from ${min} to ${max}${unit === '' ? '' : ` (${unit})`}, not ${value}`)
}

// The compaction filter, by name, that removes the keys beginning with one of the prefixes.
function prefixFilter (...prefixes) {
  const list = prefixes.map((prefix) => ArrayBuffer.isView(prefix)
    ? Buffer.from(prefix.buffer, prefix.byteOffset, prefix.byteLength)
    : Buffer.from(prefix)) // of other views these are the numbers
  return 'prefix:' + list.map((p) => p.toString('hex').replace(/../g, '%$&')).join(',')
}

// Functions could not be called from the engine's threads.
function checkFilter ({ compactionFilter }) {
  if (compactionFilter === undefined || compactionFilter === null ||
    typeof compactionFilter === 'string') return
  throw invalidArgument('The compaction filter must be a name, such as prefixFilter() returns')
}

function comparatorPair ({ comparator }) {
  if (comparator === undefined || comparator === null) return []
  if (typeof comparator !== 'string') {
    throw invalidArgument('The comparator must be the name of a built-in order')
  }
  return ['comparator', comparator]
}

// The options that the engine knows, as an array of alternating names and
// values. Names of no option are refused; others are those of the caller's own options,
// null if unknown names are for hooks.
async function enginePairs (given, { others = [], clamps = false } = {}) {
  const options = Object(given) === given ? given : {} // as in abstract-level
  const known = await engineOptions()
  if (others !== null) {
    checkNames(options, [...known.keys(), ...others].filter((name) => name !== 'errorIfMissing'))
  }
  checkFilter(options)
  const pairs = comparatorPair(options)
  for (const [key, description] of known) {
    let value = options[key]
    if (value === undefined || value === null || NOT_TAKEN.has(key)) continue
    if (typeof value === 'number' && description.max > description.min) {
      value = checkNumber(key, value, description, clamps)
    }
    if (key === 'compression' && typeof value === 'boolean') value = value ? 'snappy' : 'none'
    pairs.push(description.name, String(value))
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
    if (!(resources instanceof Resources)) {
      throw invalidArgument("The option 'resources' must be a Resources")
    }
    if (cache !== undefined && cache !== null) {
      throw invalidArgument(
        "The options 'resources' and 'cache' exclude each other: resources have a cache")
    }
    return resources.native()
  }
  if (cache === undefined || cache === null) return undefined
  if (!(cache instanceof Cache)) throw invalidArgument("The option 'cache' must be a Cache")
  return cache.native()
}

// A function of level and message, for the native side: (number, string).
function loggerOf ({ logger }) {
  if (logger === undefined || logger === null) return undefined
  if (typeof logger === 'function') {
    return (level, message) => logger(LEVELS[level] ?? 'info', message)
  }
  if (Object.values(LEVELS).every((name) => typeof logger[name] === 'function')) {
    return (level, message) => logger[LEVELS[level] ?? 'info'](message)
  }
  throw invalidArgument(
    "The option 'logger' must be a function, or have the methods debug, info, warn and error")
}

exports.OPENING = OPENING
exports.prefixFilter = prefixFilter
exports.enginePairs = enginePairs
exports.creationPairs = creationPairs
exports.cacheOf = cacheOf
exports.loggerOf = loggerOf
