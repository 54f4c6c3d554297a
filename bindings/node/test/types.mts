// Compiled by test/package.js and run in a package that has loamdb: what
// type-checks in a module also works.

import loamdb, { Cache, ClassicLevel, Loam } from 'loamdb'
import type { DatabaseOptions, SyncIterator } from 'loamdb'
import { Level } from 'level'

const options: DatabaseOptions<string, number> = { valueEncoding: 'json' }
const db = new loamdb.Loam<string, number>('types-db', options)
await db.put('a', 1)
const one: number | undefined = await db.get('a')
const entries: SyncIterator<string, number> = db.iteratorSync()
const list: Array<[string, number]> = entries.all()
entries[Symbol.dispose]()
await db.close()

class Own extends ClassicLevel<string, number> {}
const own = new Own('types-db', options)
const two: number | undefined = await own.get('a')
await own[Symbol.asyncDispose]()

const level = new Level<string, string>('level-db')
await level.put('k', 'v')
const v: string | undefined = await level.get('k')
await level.close()

console.log(one, two, list.length, v, loamdb.Loam === Loam, level instanceof Loam, typeof Cache)
