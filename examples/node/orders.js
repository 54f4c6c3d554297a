'use strict'

// A shop's orders: a queue that workers take from in transactions, and a feed of changes that keeps
// the figures of a dashboard. Both go on where they were after a restart.
//
// usage: node orders.js DIRECTORY

const { Loam } = require('loamdb')

const WORKERS = 3
const ORDERS = 500

class Shop {
  constructor (location) {
    // Logs stay for the feed, which may be behind.
    this.db = new Loam(location, { walRetentionBytes: '64MiB' })
    this.json = { valueEncoding: 'json' }
  }

  async open () {
    await this.db.open()
    this.waiting = this.db.keyspace('waiting', this.json) // orders that wait, by number
    this.sent = this.db.keyspace('sent', this.json)
    this.stock = this.db.keyspace('stock', this.json) // pieces left of each article
    this.figures = this.db.keyspace('figures', this.json)
    await Promise.all([this.waiting, this.sent, this.stock, this.figures].map((k) => k.open()))
  }

  close () {
    return this.db.close()
  }

  // Adds orders, all or none.
  order (first, orders) {
    return this.waiting.batch(orders.map((value, i) => ({
      type: 'put', key: String(first + i).padStart(8, '0'), value
    })), { sync: true })
  }

  // Takes the oldest order, and the pieces from the stock: both happen, or neither. Two workers
  // that meet at an order or article do it one after the other: the second transaction is run
  // again. Resolves to the order's number, or to undefined when none waits.
  send (worker) {
    return this.db.transaction(async (tx) => {
      const waiting = { ...this.json, keyspace: this.waiting }
      for await (const [number, order] of tx.iterator({ ...waiting, limit: 1 })) {
        const stock = { ...this.json, keyspace: this.stock }
        const pieces = await tx.get(order.article, stock) ?? 0
        await tx.del(number, waiting)
        const answer = pieces < order.pieces ? 'refused' : 'sent'
        if (answer === 'sent') await tx.put(order.article, pieces - order.pieces, stock)
        await tx.put(number, { ...order, answer, worker }, { ...this.json, keyspace: this.sent })
        return number
      }
    }, { retries: 1000 })
  }

  // Counts what was answered, from where it was the last time. What was counted and how far it got
  // are written together: no order is counted twice.
  async count () {
    const state = await this.figures.get('state') ?? { next: 0, sent: 0, refused: 0 }
    const feed = this.db.changes({ from: state.next })
    for (let change; (change = await feed.poll()) !== undefined;) {
      for (const { type, keyspace, value } of change.operations) {
        if (type === 'put' && keyspace === 'sent') state[JSON.parse(value).answer]++
      }
      state.next = change.next
    }
    await this.figures.put('state', state)
    return state
  }
}

async function work (shop, name) {
  let n = 0
  while (await shop.send(name) !== undefined) n++
  return n
}

function * orders (from, to) {
  for (let i = from; i < to; i++) yield { article: `article${i % 5}`, pieces: 1 + i % 3 }
}

async function main (location) {
  let shop = new Shop(location)
  await shop.open()
  // Enough for all orders except those of article4: half of its pieces are there.
  for (let i = 0; i < 5; i++) await shop.stock.put(`article${i}`, i === 4 ? 100 : 1000)
  await shop.order(0, [...orders(0, ORDERS / 2)])
  const done = await Promise.all(Array.from({ length: WORKERS }, (_, i) => work(shop, `w${i}`)))
  const { sent, refused } = await shop.count()
  console.log(done.reduce((a, b) => a + b), 'answered,', sent + refused, 'counted')
  await shop.close()

  // A restart. The feed counts what is new.
  shop = new Shop(location)
  await shop.open()
  await shop.order(ORDERS / 2, [...orders(ORDERS / 2, ORDERS)])
  console.log((await shop.waiting.keys().all()).length, 'wait')
  await Promise.all(Array.from({ length: WORKERS }, (_, i) => work(shop, `w${i}`)))
  const state = await shop.count()
  console.log(state.sent, 'sent,', state.refused, 'refused')
  let pieces = 0
  for await (const order of shop.sent.values()) if (order.answer === 'sent') pieces += order.pieces
  let left = 0
  for await (const n of shop.stock.values()) left += n
  console.log('pieces sent and left:', pieces + left)
  await shop.close()
}

main(process.argv[2])

// Prints:
// 250 answered, 250 counted
// 250 wait
// 451 sent, 49 refused
// pieces sent and left: 4100
