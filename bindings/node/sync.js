'use strict'

// The synchronous methods that databases and their sublevels have in common.

const { notOpen, invalidArgument, hookFailed, checkNames } = require('./errors')

function assertOpen (db, method) {
  if (db.status !== 'open') throw notOpen(method)
}

// Each of the following encodes, gives db[kPut], db[kDel] or db[kBatch] keys and
// values as the parent has them, and emits what put(), del() and batch() emit.
const kPut = Symbol('put')
const kDel = Symbol('del')
const kBatch = Symbol('batch')
const kDeleteRange = Symbol('deleteRange')
const kDeleteRangeSync = Symbol('deleteRangeSync')

function put (db, key, value, options) {
  assertOpen(db, 'putSync')
  if (!db.hooks.prewrite.noop || (options?.ttl ?? undefined) !== undefined) {
    return batch(db, [{ type: 'put', key, value }], options)
  }
  db._assertValidKey(key)
  db._assertValidValue(value)
  const keyEncoding = db.keyEncoding(options?.keyEncoding)
  const valueEncoding = db.valueEncoding(options?.valueEncoding)
  const encodedKey = keyEncoding.encode(key)
  const encodedValue = valueEncoding.encode(value)
  db[kPut](db.prefixKey(encodedKey, keyEncoding.format, true), encodedValue, keyEncoding.format,
    valueEncoding.format, options)
  if (db.listenerCount('write') > 0) {
    db.emit('write',
      [{ ...options, type: 'put', key, value, keyEncoding, valueEncoding, encodedKey,
        encodedValue }])
  }
}

function del (db, key, options) {
  assertOpen(db, 'delSync')
  if (!db.hooks.prewrite.noop) return batch(db, [{ type: 'del', key }], options)
  db._assertValidKey(key)
  const keyEncoding = db.keyEncoding(options?.keyEncoding)
  const encodedKey = keyEncoding.encode(key)
  db[kDel](db.prefixKey(encodedKey, keyEncoding.format, true), keyEncoding.format, options)
  if (db.listenerCount('write') > 0) {
    db.emit('write', [{ ...options, type: 'del', key, keyEncoding, encodedKey }])
  }
}

// Options of methods that write one value, which lives for ever.
const WRITING = ['keyEncoding', 'valueEncoding', 'sync']

function mergeSync (db, key, operand, options) {
  checkNames(options, WRITING)
  batch(db, [{ type: 'merge', key, value: operand }], options)
}

// The encoded key and operand of a merge.
function mergeArguments (db, key, operand, options) {
  checkNames(options, WRITING)
  db._assertValidKey(key)
  db._assertValidValue(operand)
  const keyEncoding = db.keyEncoding(options?.keyEncoding)
  const encodedKey = keyEncoding.encode(key)
  return [db.prefixKey(encodedKey, keyEncoding.format, true),
    db.valueEncoding(options?.valueEncoding).encode(operand)]
}

// What a sublevel gives a method of its root database: key, values and options.
function rooted (db, key, values, options) {
  db._assertValidKey(key)
  const keyEncoding = db.keyEncoding(options?.keyEncoding)
  const valueEncoding = db.valueEncoding(options?.valueEncoding)
  return [
    db.prefixKey(keyEncoding.encode(key), keyEncoding.format, false),
    ...values.map((value) => value === undefined || value === null ? value : valueEncoding.encode(
      value)),
    { ...options, keyEncoding: keyEncoding.format, valueEncoding: valueEncoding.format }
  ]
}

// The same of a range whose ends may be undefined or null: those of the sublevel.
function rootedRange (db, [start, stop], options) {
  const { format, encode } = encoder(db, options)
  const [lower, upper] = prefixRange(db.prefix).map((key) => inFormat(key, format))
  return [[start === undefined || start === null ? lower : encode(start), stop === undefined ||
    stop === null ? upper : encode(stop)], { ...options, keyEncoding: format }]
}

function encoder (db, options) {
  const keyEncoding = db.keyEncoding(options?.keyEncoding)
  return { format: keyEncoding.format, encode: (key) => db.prefixKey(keyEncoding.encode(key),
    keyEncoding.format, false) }
}

// Of deleteRange and deleteRangeSync, which emit no event, as clear() does not tell of keys.
// They end in db[symbol].
function deleteRange (db, start, limit, options, symbol = kDeleteRange) {
  assertOpen(db, symbol === kDeleteRange ? 'deleteRange' : 'deleteRangeSync')
  checkNames(options, ['keyEncoding', 'sync'])
  const keyEncoding = db.keyEncoding(options?.keyEncoding)
  const [from, to] = [start, limit].map((key) => {
    db._assertValidKey(key)
    return db.prefixKey(keyEncoding.encode(key), keyEncoding.format, true)
  })
  return db[symbol](from, to, keyEncoding.format, options)
}

function batch (db, operations, options) {
  assertOpen(db, 'batchSync')
  if (!Array.isArray(operations)) {
    throw new TypeError("The first argument 'operations' must be an array")
  }
  if (operations.length === 0) return
  const events = db.listenerCount('write') > 0 ? [] : null
  const added = db.hooks.prewrite.noop ? null : new Added(db, events)
  // Nothing looks at options that are none of an operation's.
  const apart = added === null && events === null && db.parent === null &&
    Object.keys(options ?? {}).every((name) => name === 'sync')
  const encoded = operations.map((operation) => {
    const op = apart ? operation : { ...options, ...operation }
    if (added !== null) prewrite(db, op, added)
    return encode(db, op, events)
  })
  db[kBatch](added === null ? encoded : encoded.concat(added.operations), options)
  if (events !== null) db.emit('write', added === null ? events : events.concat(added.events))
}

// What prewrite hooks add to a batch, behind its own operations.
class Added {
  #db
  operations = []
  events

  constructor (db, events) {
    this.#db = db
    this.events = events === null ? null : []
  }

  add (op) {
    this.operations.push(encode(this.#db, { ...op }, this.events))
    return this
  }
}

// Hooks see an operation that has been checked, with its encodings, and may
// change it, but neither its type nor its sublevel.
function prewrite (db, op, added) {
  const { type, sublevel } = op
  const target = check(db, op)
  op.keyEncoding = target.keyEncoding(op.keyEncoding)
  if (type !== 'del') op.valueEncoding = target.valueEncoding(op.valueEncoding)
  try {
    db.hooks.prewrite.run(op, added)
    target.keyEncoding(op.keyEncoding)
    if (type !== 'del') target.valueEncoding(op.valueEncoding)
  } catch (err) {
    throw hookFailed('batchSync', err)
  }
  op.type = type
  if (op.sublevel !== sublevel) op.sublevel = sublevel
}

// Returns the database or sublevel that the operation concerns.
function check (db, op) {
  const target = op.sublevel ?? db
  if (op.type !== 'put' && op.type !== 'del' && op.type !== 'merge') {
    throw new TypeError(
      "A batch operation must have a type property that is 'put' or 'del', or 'merge'")
  }
  if (op.type === 'merge' && (op.ttl ?? undefined) !== undefined) {
    throw invalidArgument("The option 'ttl' is none of a merge")
  }
  target._assertValidKey(op.key)
  if (op.type !== 'del') target._assertValidValue(op.value)
  return target
}

// The operation as the parent of db has it. Copies of operations cost ten times
// what writing them does: where nobody looks at them there are none.
function encode (db, op, events) {
  const target = check(db, op)
  const keyEncoding = target.keyEncoding(op.keyEncoding)
  const key = keyEncoding.encode(op.key)
  let valueEncoding, value
  if (op.type !== 'del') {
    valueEncoding = target.valueEncoding(op.valueEncoding)
    value = valueEncoding.encode(op.value)
  }
  const within = prefixWithin(key, keyEncoding.format, target, db)
  if (within === null) {
    // A sublevel that is not below db is a matter of the parent.
    if (db.parent === null) {
      throw invalidArgument('A batch operation has a sublevel of another database')
    }
    return parentOperation(op, op.sublevel, key, keyEncoding, value, valueEncoding)
  }
  const prefixed = db.prefixKey(within, keyEncoding.format, true)
  if (db.parent === null && events === null) return { type: op.type, key: prefixed, value,
    sublevel: null, keyspace: op.keyspace, ttl: op.ttl }
  if (events !== null) {
    events.push(target === db ? event(op, key, keyEncoding, value, valueEncoding) : eventBelow(
      db, op, within, keyEncoding, value, valueEncoding))
  }
  return parentOperation(op, null, prefixed, keyEncoding, value, valueEncoding)
}

// What the parent is given.
function parentOperation (op, sublevel, key, keyEncoding, value, valueEncoding) {
  const encoded = { ...op, sublevel, key, keyEncoding: keyEncoding.format }
  if (op.type !== 'del') Object.assign(encoded, { value, valueEncoding: valueEncoding.format })
  return encoded
}

function event (op, encodedKey, keyEncoding, encodedValue, valueEncoding) {
  const told = { ...op, keyEncoding, encodedKey }
  return op.type !== 'del' ? Object.assign(told, { valueEncoding, encodedValue }) : told
}

// The event of an operation on a sublevel below db, as db has it.
function eventBelow (db, op, key, keyEncoding, value, valueEncoding) {
  const told = { ...op, sublevel: null, key, keyEncoding: db.keyEncoding(keyEncoding.format),
    encodedKey: key }
  return op.type !== 'del' ? Object.assign(
    told, { value, valueEncoding: db.valueEncoding(valueEncoding.format), encodedValue: value }) :
    told
}

// The key of a sublevel as its ancestor has it; null when it is none.
function prefixWithin (key, format, sublevel, ancestor) {
  for (let db = sublevel; db !== ancestor; db = db.parent) {
    if (db === null || db === undefined) return null
    key = db.prefixKey(key, format, true)
  }
  return key
}

// ---- Iterators ----

// Makes the iterator with make(options, encodings), the range being that of the root database.
function iterator (db, options, make) {
  assertOpen(db, 'iteratorSync')
  const { encoded, encodings } = encodeRange(db, options)
  return make(encoded, encodings)
}

function encodeRange (db, options) {
  const encodings = { key: db.keyEncoding(options?.keyEncoding), value: db.valueEncoding(
    options?.valueEncoding) }
  const { format } = encodings.key
  const encoded = { ...options, keyEncoding: format, valueEncoding: encodings.value.format }
  for (const name of ['gt', 'gte', 'lt', 'lte']) {
    if (encoded[name] === undefined || encoded[name] === null) delete encoded[name]
    else encoded[name] = encodings.key.encode(encoded[name])
  }
  return { encoded: rootedOptions(db, encoded), encodings }
}

// Encoded options of an iterator, with the range as the root database has it.
function rootedOptions (db, options) {
  if (!db.prefix) return options
  const format = options.keyEncoding
  const rooted = { ...options }
  for (const name of ['gt', 'gte', 'lt', 'lte']) {
    if (rooted[name] !== undefined) rooted[name] = db.prefixKey(rooted[name], format, false)
  }
  const [lower, upper] = prefixRange(db.prefix).map((key) => inFormat(key, format))
  if (rooted.gt === undefined && rooted.gte === undefined) rooted.gte = lower
  if (rooted.lt === undefined && rooted.lte === undefined) rooted.lt = upper
  return rooted
}

// The first key of a sublevel, and the first behind it: its prefix ends with the
// separator, above which a byte is reserved.
function prefixRange (prefix) {
  return [prefix, prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) +
    1)]
}

const inFormat = (text, format) => format === 'utf8' ? text : Buffer.from(text)

exports.assertOpen = assertOpen
exports.kPut = kPut
exports.kDel = kDel
exports.kBatch = kBatch
exports.kDeleteRange = kDeleteRange
exports.kDeleteRangeSync = kDeleteRangeSync
exports.kTransaction = Symbol('transaction')
exports.kIterator = Symbol('iterator')
exports.kReading = Symbol('reading')
exports.put = put
exports.del = del
exports.batch = batch
exports.mergeSync = mergeSync
exports.mergeArguments = mergeArguments
exports.WRITING = WRITING
exports.deleteRange = deleteRange
exports.rooted = rooted
exports.rootedRange = rootedRange
exports.rootedOptions = rootedOptions
exports.iterator = iterator
exports.encodeRange = encodeRange
