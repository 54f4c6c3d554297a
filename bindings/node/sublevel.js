'use strict'

const { AbstractSublevel } = require('abstract-level')
const sync = require('./sync')

// A sublevel with the synchronous methods of its database. What they do comes
// down to the same methods of the parent, as with the asynchronous ones.
class Sublevel extends AbstractSublevel {
  _sublevel (name, options) {
    return new Sublevel(this, name, options)
  }

  async deleteRange (start, limit, options) {
    if (this.status === 'opening') return this.deferAsync(() => this.deleteRange(start, limit, options))
    return sync.deleteRange(this, start, limit, options)
  }

  [sync.kDeleteRange] (start, limit, keyEncoding, options) {
    return this.parent.deleteRange(start, limit, { ...options, keyEncoding })
  }

  putSync (key, value, options) {
    sync.put(this, key, value, options)
  }

  delSync (key, options) {
    sync.del(this, key, options)
  }

  batchSync (operations, options) {
    sync.batch(this, operations, options)
  }

  iteratorSync (options) {
    return sync.iterator(this, options, (encoded, encodings) => this.db[sync.kIterator](this, encoded, encodings))
  }

  [sync.kPut] (key, value, keyEncoding, valueEncoding, options) {
    this.parent.putSync(key, value, { ...options, keyEncoding, valueEncoding })
  }

  [sync.kDel] (key, keyEncoding, options) {
    this.parent.delSync(key, { ...options, keyEncoding })
  }

  [sync.kBatch] (operations, options) {
    this.parent.batchSync(operations, options)
  }
}

exports.Sublevel = Sublevel
