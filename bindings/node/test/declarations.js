'use strict'

// What index.d.ts declares is there, and what is there is declared.

const test = require('tape')
const fs = require('fs')
const os = require('os')
const path = require('path')
const ts = require('typescript')
const EventEmitter = require('events')
const { AbstractLevel } = require('abstract-level')
const loamdb = require('..')
const { Backups, Cache, ClassicLevel, Keyspace, Loam, Resources, TableWriter } = loamdb

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-declarations-'))
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

const file = path.join(__dirname, '..', 'index.d.ts')
const { options } = ts.parseJsonConfigFileContent(require('./tsconfig.json'), ts.sys, __dirname)
const program = ts.createProgram([file], options)
const checker = program.getTypeChecker()
const symbols = new Map(
  checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(file))).map(
    (symbol) => [symbol.name, symbol]))

// Names without symbols and without the private members of abstract-level.
const shown = (names) => [...new Set(names)].filter((name) => !name.startsWith('_') &&
  name !== 'constructor').sort()
const declaredIn = (type, optional = true) => shown(checker.getPropertiesOfType(type)
  .filter((property) => optional || !(property.flags & ts.SymbolFlags.Optional)).map(
    (property) => property.name))
const typeOf = (name) => checker.getDeclaredTypeOfSymbol(symbols.get(name))

function implementedIn (object) {
  const names = []
  for (; object !== null && ![Object.prototype, Function.prototype].includes(object); object =
    Object.getPrototypeOf(object)) names.push(...Object.getOwnPropertyNames(object))
  return shown(names)
}

// Names of classes whose instances and classes themselves are compared.
const classes = { Backups, Cache, ClassicLevel, Keyspace, Loam, Resources, TableWriter }

test('exports', (t) => {
  const values = [...symbols.values()].filter(
    (symbol) => (symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) :
      symbol).flags & ts.SymbolFlags.Value)
  t.same(shown(values.map((symbol) => symbol.name)).filter((name) => name !== 'default'),
    shown(Object.keys(loamdb)))
  t.end()
})

test('methods and properties', async (t) => {
  const db = new Loam(path.join(root, 'db'))
  await db.put('a', '1')
  const users = db.keyspace('users')
  await users.open()
  const backups = await Backups.open(path.join(root, 'backups'))
  const table = await TableWriter.create(path.join(root, 'table'))
  const classic = new ClassicLevel(path.join(root, 'classic'))
  await classic.open()
  const [cache, resources] = [new Cache(1 << 20), new Resources()]
  const changes = db.changes()
  const syncIterator = db.iteratorSync()
  let transaction
  await db.transaction((tx) => { transaction = tx })
  const instances = { Loam: db, Keyspace: users, Backups: backups, TableWriter: table,
    ClassicLevel: classic, Cache: cache, Resources: resources, Changes: changes,
    SyncIterator: syncIterator, Sublevel: db.sublevel('s'), Transaction: transaction }
  // For the package's own modules.
  const internal = { Cache: ['native'], Resources: ['native'] }
  // Of abstract-level's classes the declarations are abstract-level's.
  const abstract = new Set(
    [...implementedIn(AbstractLevel.prototype), ...implementedIn(db.sublevel('x')).filter(
      (name) => name in Object.getPrototypeOf(Object.getPrototypeOf(db.sublevel('x'))))])
  for (const [name, instance] of Object.entries(instances)) {
    const declared = declaredIn(typeOf(name))
    t.same(declaredIn(typeOf(name), false).filter((property) => !(property in instance)), [],
      `${name}: declared`)
    const own = implementedIn(instance).filter((property) => !(internal[name] ?? []).includes(
      property) && !(instance instanceof AbstractLevel && abstract.has(property)))
    t.same(own.filter((property) => !declared.includes(property)), [], `${name}: implemented`)
  }
  for (const [name, Class] of Object.entries(classes)) {
    const ours = (property) => !(property in EventEmitter)
    const declared = declaredIn(checker.getTypeOfSymbol(symbols.get(name))).filter(ours)
    const own = implementedIn(Class).filter(ours)
    t.same(declared, own, `${name}: static`)
  }
  syncIterator.close()
  await changes.close()
  await table.close()
  await backups.close()
  await Promise.all([db.close(), classic.close()])
})
