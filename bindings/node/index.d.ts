import {
  AbstractLevel,
  AbstractBatchDelOperation,
  AbstractBatchOptions,
  AbstractBatchPutOperation,
  AbstractChainedBatch,
  AbstractChainedBatchDelOptions,
  AbstractChainedBatchPutOptions,
  AbstractChainedBatchWriteOptions,
  AbstractClearOptions,
  AbstractDatabaseOptions,
  AbstractDelOptions,
  AbstractGetManyOptions,
  AbstractGetOptions,
  AbstractHasManyOptions,
  AbstractHasOptions,
  AbstractIterator,
  AbstractIteratorOptions,
  AbstractKeyIterator,
  AbstractKeyIteratorOptions,
  AbstractOpenOptions,
  AbstractPutOptions,
  AbstractSnapshot,
  AbstractSublevel,
  AbstractSublevelOptions,
  AbstractValueIterator,
  AbstractValueIteratorOptions,
  Transcoder
} from 'abstract-level'

/**
 * An abstract-level database on the Loam engine.
 *
 * @template KDefault Type of keys unless an operation says otherwise.
 * @template VDefault Type of values unless an operation says otherwise.
 */
export class Loam<KDefault = string, VDefault = string>
  extends AbstractLevel<string | Buffer | Uint8Array, KDefault, VDefault> {
  /**
   * @param location Directory of the database.
   * @param options Options, some of which are handed on to {@link open}.
   */
  constructor (location: string, options?: DatabaseOptions<KDefault, VDefault> | undefined)

  /** The location that was given to the constructor. */
  get location (): string

  open (): Promise<void>
  open (options: OpenOptions): Promise<void>

  get (key: KDefault): Promise<VDefault | undefined>
  get<K = KDefault, V = VDefault> (key: K, options: GetOptions<K, V>): Promise<V | undefined>

  getSync (key: KDefault): VDefault | undefined
  getSync<K = KDefault, V = VDefault> (key: K, options: GetOptions<K, V>): V | undefined

  getMany (keys: KDefault[]): Promise<Array<VDefault | undefined>>
  getMany<K = KDefault, V = VDefault> (keys: K[], options: GetManyOptions<K, V>): Promise<Array<V |
    undefined>>

  has (key: KDefault): Promise<boolean>
  has<K = KDefault> (key: K, options: HasOptions<K>): Promise<boolean>

  hasMany (keys: KDefault[]): Promise<boolean[]>
  hasMany<K = KDefault> (keys: K[], options: HasManyOptions<K>): Promise<boolean[]>

  put (key: KDefault, value: VDefault): Promise<void>
  put<K = KDefault, V = VDefault> (key: K, value: V, options: PutOptions<K, V>): Promise<void>

  del (key: KDefault): Promise<void>
  del<K = KDefault> (key: K, options: DelOptions<K>): Promise<void>

  batch (operations: Array<BatchOperation<typeof this, KDefault, VDefault>>): Promise<void>
  batch<K = KDefault, V = VDefault> (operations: Array<BatchOperation<typeof this, Given<K>,
    Given<V>>>): Promise<void>
  batch<K = KDefault, V = VDefault> (operations: Array<BatchOperation<typeof this, K, V>>,
    options: BatchOptions<K, V>): Promise<void>
  batch (): ChainedBatch<typeof this, KDefault, VDefault>

  clear (): Promise<void>
  clear<K = KDefault> (options: ClearOptions<K>): Promise<void>

  iterator (): Iterator<typeof this, KDefault, VDefault>
  iterator<K = KDefault, V = VDefault> (options: IteratorOptions<K, V>): Iterator<typeof this, K, V>

  keys (): KeyIterator<typeof this, KDefault>
  keys<K = KDefault> (options: KeyIteratorOptions<K>): KeyIterator<typeof this, K>

  values (): ValueIterator<typeof this, KDefault, VDefault>
  values<K = KDefault, V = VDefault> (options: ValueIteratorOptions<K,
    V>): ValueIterator<typeof this, K, V>

  snapshot (options?: any | undefined): Snapshot

  sublevel (name: string | string[]): Sublevel<typeof this, string, string>
  sublevel<K = string, V = string> (name: string | string[], options: AbstractSublevelOptions<K,
    V>): Sublevel<typeof this, K, V>

  /**
   * Write an entry on the calling thread. Comes after all earlier writes of this
   * database, for which it waits. Runs prewrite hooks, as put() does.
   */
  putSync (key: KDefault, value: VDefault): void
  putSync<K = KDefault, V = VDefault> (key: K, value: V, options: PutOptions<K, V>): void

  /**
   * Add an operand to a key: the merge operator combines it with the key's value when the key is
   * read. Needs a native database that was opened with `mergeOperator`.
   */
  merge<K = KDefault, V = VDefault> (key: K, operand: V,
    options?: MergeOptions<K, V>): Promise<void>

  /** {@link merge} on the calling thread. {@link batchSync} takes operations of type `'merge'`,
   * too. */
  mergeSync<K = KDefault, V = VDefault> (key: K, operand: V, options?: MergeOptions<K, V>): void

  /**
   * Delete all entries from `start` up to, not including, `limit`, at the cost of one put. A
   * database in LevelDB's format rejects with `LEVEL_NEEDS_NATIVE`.
   */
  deleteRange (start: KDefault, limit: KDefault): Promise<void>
  deleteRange<K = KDefault> (start: K, limit: K, options: DelOptions<K>): Promise<void>

  /** {@link deleteRange} on the calling thread; otherwise as {@link putSync}. */
  deleteRangeSync (start: KDefault, limit: KDefault): void
  deleteRangeSync<K = KDefault> (start: K, limit: K, options: DelOptions<K>): void

  /**
   * Call a function with a transaction, which is committed when the function's promise resolves and
   * rolled back when it rejects. After a conflict the function is called again. Resolves to the
   * result of the function. Commits neither run prewrite hooks nor emit events.
   */
  transaction<T> (fn: (tx: Transaction<KDefault, VDefault>) => T | Promise<T>,
    options?: TransactionOptions | undefined): Promise<T>

  /**
   * Store a value if the key has the value `old`: a transaction in one call. Resolves to whether it
   * did. `undefined` or `null` stands for no value: as `old`, the key must have none; as `value`,
   * the key is deleted.
   */
  compareAndSwap (key: KDefault, old: VDefault | null | undefined, value: VDefault | null |
    undefined): Promise<boolean>
  compareAndSwap<K = KDefault, V = VDefault> (key: K, old: V | null | undefined, value: V | null |
    undefined, options: MergeOptions<K, V>): Promise<boolean>

  /**
   * The seconds until the key's value expires: `Infinity` if it does not expire, `undefined` if the
   * key has no value. Values expire if `put()`, `putSync()` or a batch's `put` wrote them with the
   * option `ttl`, or in a keyspace with `defaultTtl`.
   */
  ttl (key: KDefault): Promise<number | undefined>
  ttl<K = KDefault> (key: K, options: { keyEncoding?: any }): Promise<number | undefined>

  /** Store a value if the key has none. Resolves to whether it did. */
  putIfAbsent (key: KDefault, value: VDefault): Promise<boolean>
  putIfAbsent<K = KDefault, V = VDefault> (key: K, value: V, options: MergeOptions<K,
    V>): Promise<boolean>

  /** Delete an entry on the calling thread; otherwise as {@link putSync}. */
  delSync (key: KDefault): void
  delSync<K = KDefault> (key: K, options: DelOptions<K>): void

  /** Write all operations or none on the calling thread; otherwise as {@link putSync}. */
  batchSync (operations: Array<SyncOperation<typeof this, KDefault, VDefault>>): void
  batchSync<K = KDefault, V = VDefault> (operations: Array<SyncOperation<typeof this, Given<K>,
    Given<V>>>): void
  batchSync<K = KDefault, V = VDefault> (operations: Array<SyncOperation<typeof this, K, V>>,
    options: BatchOptions<K, V>): void

  /** Read a range on the calling thread. Closed when it has been read to its end. */
  iteratorSync (): SyncIterator<KDefault, VDefault>
  iteratorSync<K = KDefault, V = VDefault> (options: IteratorOptions<K, V>): SyncIterator<K, V>

  /**
   * A keyspace: a separate key space within the database. It opens by itself, and is created if
   * there is none of that name. Batches and snapshots may cover several. Needs the native format.
   */
  keyspace<K = string, V = string> (name: string, options?: KeyspaceOptions<K,
    V> | undefined): Keyspace<K, V>

  /** The names of all keyspaces, `'default'` first. */
  keyspaces (): string[]

  /** Drop a keyspace and its contents, at once. Its space is reclaimed in the background. */
  dropKeyspace (name: string): Promise<void>

  /** Resolves when all earlier writes of this database are on disk. */
  sync (): Promise<void>

  /** An estimate of the bytes of files that the range `[start..end)` takes. */
  approximateSize (start: KDefault, end: KDefault): Promise<number>
  approximateSize<K = KDefault> (start: K, end: K, options: StartEndOptions<K>): Promise<number>

  /** {@link approximateSize} of many ranges; `undefined` or `null` means no bound. */
  approximateSizes (ranges: Iterable<Range<KDefault>>): Promise<number[]>
  approximateSizes<K = KDefault> (ranges: Iterable<Range<K>>,
    options: StartEndOptions<K>): Promise<number[]>

  /** Write the memtables into tables, with all earlier writes of this database. */
  flush (): Promise<void>

  /** Compact the range `[start..stop)`; `undefined` or `null` means no bound. */
  compact (start?: KDefault | null | undefined, stop?: KDefault | null | undefined): Promise<void>
  compact<K = KDefault> (start: K | null | undefined, stop: K | null | undefined,
    options: CompactOptions<K>): Promise<void>

  /** Read every table whole, from the disk and past the cache, and check it. Rejects with
   * `LEVEL_CORRUPTION`, which names every damaged table. */
  verify (options?: VerifyOptions | undefined): Promise<void>

  /** Encrypt all files with the current key of the option `encryption`, while reads and writes go
   * on. The option, and a key file, are read at opening: open with the new key first. */
  rekey (options?: CheckpointOptions | undefined): Promise<void>

  /** The keys of the files in the directory. */
  keysInUse (): Promise<KeyUse[]>

  /**
   * Make the directory `location` a separate database with the present contents of this one, all
   * keyspaces and the writes before the call included. Tables are hard links, or copies where links
   * are impossible. The directory must not exist, or be empty; its parent must exist.
   */
  checkpoint (location: string, options?: CheckpointOptions | undefined): Promise<void>

  /**
   * Add tables of {@link TableWriter} to the database or keyspace, all or none of them. Their
   * entries are newer than all others, invisible to open snapshots and iterators, and durable when
   * the promise resolves.
   * The files stay, and must not be changed afterwards, unless `move` is true.
   */
  ingest (locations: Iterable<string>, options?: IngestOptions<KDefault> | undefined): Promise<void>

  /**
   * Load all entries of an iterable, in any order: they are sorted, with the help of files in the
   * directory, and ingested as tables, all in one step. Of entries with the same key the last one
   * counts. Into a range without entries it is several times as fast as writes, and leaves nothing
   * to compact.
   */
  bulkLoad (entries: AsyncIterable<[KDefault, VDefault]> | Iterable<[KDefault, VDefault]>,
    options?: BulkLoadOptions<KDefault, VDefault> | undefined): Promise<void>
  bulkLoad<K = KDefault, V = VDefault> (entries: AsyncIterable<[K, V]> | Iterable<[K, V]>,
    options: BulkLoadOptions<K, V>): Promise<void>

  /**
   * Make a follower show everything that the writer has written up to this call, or more; see
   * {@link Loam.follow}.
   */
  catchUp (options?: CatchUpOptions | undefined): Promise<void>

  /** How far a follower is behind its directory. Rejects with the error of the last catch-up if
   * that failed. */
  lag (): Promise<Lag>

  /**
   * Write one state of all keyspaces, that of the option `snapshot` or the present one, into a
   * file, by its path, or a stream, for {@link load} on any machine and into any format.
   */
  dump (file: string | NodeJS.WritableStream, options?: DumpOptions | undefined): Promise<DumpInfo>

  /**
   * Load a dump into the database, durably. Keyspaces of the dump must be empty or missing, unless
   * `overwrite` is set. After a failure or a crash, repeat the call with the same dump from its
   * beginning: it continues where the first one ended.
   */
  load (file: string | NodeJS.ReadableStream, options?: LoadOptions | undefined): Promise<DumpInfo>

  /**
   * A feed of all commits, over all keyspaces: every operation once and in order. It ends when it
   * or the database is closed. It fails with `LEVEL_GAP` if the changes asked for are in no log any
   * more; the options `walRetentionBytes` and `walRetentionSeconds` keep more.
   */
  changes (options?: ChangesOptions | undefined): Changes

  /** Stop automatic compaction, until {@link resumeCompaction} was called as often as this. */
  pauseCompaction (): void
  resumeCompaction (): void

  /** Retry at once the background work that failed for lack of space, memory or descriptors. */
  retry (): void

  /** All counters of the engine, as docs/metrics.md describes them. */
  metrics (): Promise<Record<string, any>>

  /** What the opening found in the logs, and what an unclean end cut off. */
  recoveryReport (): Promise<RecoveryReport>

  /** The name of the order of the keys. */
  comparatorName (): string

  /** Compact the range `[start..end]`. */
  compactRange (start: KDefault, end: KDefault): Promise<void>
  compactRange<K = KDefault> (start: K, end: K, options: CompactOptions<K>): Promise<void>

  /** A property of the engine such as `leveldb.stats`; empty when there is none of the name. */
  getProperty (property: string): string

  /**
   * Change an option while the database is open, until it is closed: for the whole database and all
   * keyspaces that have no value of their own or, called on a keyspace, for that one. It holds from
   * the next memtable, table or compaction on. Options that need a reopen are refused.
   */
  setOption (name: string, value: string | number | boolean): void
  /** The value of an option that is in force, as text. */
  option (name: string): string

  /**
   * Open a database for reading while another process, which may be LevelDB, writes it. Nothing in
   * the directory changes, and no lock is taken. {@link catchUp} shows newer writes, and the option
   * `followInterval` does so in the background.
   */
  static follow<KDefault = string,
    VDefault = string> (location: string, options?: OpenOptions & AbstractDatabaseOptions<KDefault,
      VDefault> | undefined): Promise<Loam<KDefault, VDefault>>

  /** Delete the files of a database that is not open. */
  static destroy (location: string): Promise<void>

  /** Bring a damaged database that is not open back to a state that opens, with everything that
   * can still be read. Resolves to a report. */
  static repair (location: string, options?: Pick<OpenOptions, 'comparator'> |
    undefined): Promise<Record<string, any>>

  /** Convert the LevelDB database at a location, which is not open, to the native format. */
  static upgrade (location: string, options?: Pick<OpenOptions, 'comparator'> |
    undefined): Promise<void>

  /** Copy a database that is not open into a new one, in LevelDB's format unless `format` says
   * otherwise. */
  static export (location: string, to: string, options?: Pick<OpenOptions, 'comparator' |
    'format'> | undefined): Promise<void>
}

/**
 * {@link Loam} for programs that had classic-level: new databases are in LevelDB's format
 * unless `format` says otherwise.
 */
export class ClassicLevel<KDefault = string, VDefault = string> extends Loam<KDefault, VDefault> {}

/**
 * A separate key space within a database, made by {@link Loam.keyspace}: an abstract-level
 * database with its own keys. `verify`, `rekey`, `keysInUse`, `recoveryReport`, `retry` and pausing
 * of compaction concern the whole database, which closes its keyspaces when it is closed.
 */
export class Keyspace<KDefault = string, VDefault = string> extends Loam<KDefault, VDefault> {
  private constructor ()

  /** Its name. */
  get name (): string

  /** The database that it is a keyspace of. */
  get db (): Loam<any, any>
}

export interface TransactionOptions {
  /** Refuse the commit also when a key or range that was read has been written. Default: false. */
  serializable?: boolean | undefined
  /** Lock keys at their first `put`, `del` or `getForUpdate`, and wait for those that others have.
   * Default: false. */
  lock?: boolean | undefined
  /** Milliseconds after which waiting for a lock is `LEVEL_LOCK_TIMEOUT`; `Infinity`: none.
   * Default: 1000. */
  lockTimeout?: number | undefined
  /** For messages about locks. */
  name?: string | undefined
  /** How often the function is called again after a conflict, a deadlock or a time-out. Default:
   * 10. */
  retries?: number | undefined
  /** Resolve when the data is on disk, not only in the operating system. Default: false. */
  sync?: boolean | undefined
}

interface TransactionCallOptions<K, V> {
  keyEncoding?: string | Transcoder.PartialEncoder<K> | Transcoder.PartialDecoder<K> | undefined
  valueEncoding?: string | Transcoder.PartialEncoder<V> | Transcoder.PartialDecoder<V> | undefined
  /** Another keyspace of the same database, or the database itself. */
  keyspace?: Loam<any, any> | undefined
  /** A sublevel of the database or of one of its keyspaces. */
  sublevel?: AbstractSublevel<any, any, any, any> | undefined
}

interface TransactionPutOptions<K, V> extends TransactionCallOptions<K, V> {
  /** Seconds after the commit until the value expires, as in {@link PutOptions}. */
  ttl?: number | undefined
}

export interface TransactionRangeOptions<K, V> extends TransactionCallOptions<K, V> {
  gt?: K | undefined
  gte?: K | undefined
  lt?: K | undefined
  lte?: K | undefined
  reverse?: boolean | undefined
  limit?: number | undefined
}

/**
 * Reads the state of its beginning with its own writes on top. Its calls are made one after the
 * other, in their order; after the end they reject with `LEVEL_TRANSACTION_DONE`.
 */
export interface Transaction<KDefault, VDefault> {
  get (key: KDefault): Promise<VDefault | undefined>
  get<K = KDefault, V = VDefault> (key: K, options: TransactionCallOptions<K, V>): Promise<V |
    undefined>
  /** As get, of a key that the rest depends on: another write of it is a conflict. Takes its lock
   * with `lock`. */
  getForUpdate (key: KDefault): Promise<VDefault | undefined>
  getForUpdate<K = KDefault, V = VDefault> (key: K, options: TransactionCallOptions<K,
    V>): Promise<V | undefined>
  getMany (keys: KDefault[]): Promise<Array<VDefault | undefined>>
  getMany<K = KDefault, V = VDefault> (keys: K[], options: TransactionCallOptions<K,
    V>): Promise<Array<V | undefined>>
  has (key: KDefault): Promise<boolean>
  has<K = KDefault> (key: K, options: TransactionCallOptions<K, any>): Promise<boolean>
  put (key: KDefault, value: VDefault): Promise<void>
  put<K = KDefault, V = VDefault> (key: K, value: V, options: TransactionPutOptions<K,
    V>): Promise<void>
  /** Add an operand to a key, see {@link Loam.merge}. It counts as a write of the key. */
  merge (key: KDefault, operand: VDefault): Promise<void>
  merge<K = KDefault, V = VDefault> (key: K, operand: V, options: TransactionCallOptions<K,
    V>): Promise<void>
  del (key: KDefault): Promise<void>
  del<K = KDefault> (key: K, options: TransactionCallOptions<K, any>): Promise<void>
  /** Delete all entries from `start` up to, not including, `limit`. Takes no locks; another write
   * in the range is a conflict. */
  deleteRange (start: KDefault, limit: KDefault): Promise<void>
  deleteRange<K = KDefault> (start: K, limit: K, options: TransactionCallOptions<K,
    any>): Promise<void>
  /** Delete the entries of a range that the transaction sees; native databases do so by a range
   * delete. */
  clear<K = KDefault> (options?: TransactionRangeOptions<K, any>): Promise<void>
  /** Remember what has been written until now. */
  savepoint (): Promise<number>
  /** Take back what was written since a savepoint, which stays; later ones are gone. */
  rollbackTo (savepoint: number): Promise<void>
  /** What the transaction reads at the call; later writes are not seen. */
  iterator<K = KDefault, V = VDefault> (options?: TransactionRangeOptions<K,
    V>): TransactionIterator<K, [K, V]>
  keys<K = KDefault> (options?: TransactionRangeOptions<K, any>): TransactionIterator<K, K>
  values<K = KDefault, V = VDefault> (options?: TransactionRangeOptions<K,
    V>): TransactionIterator<K, V>
}

/** An iterator of a transaction, for `for await` and by hand. Its calls are made in their order. */
export interface TransactionIterator<K, T> extends AsyncIterableIterator<T> {
  next (): Promise<IteratorResult<T, undefined>>
  /** Up to `size` entries; none at the end. */
  nextv (size: number): Promise<T[]>
  /** All entries that are left. Closes the iterator. */
  all (): Promise<T[]>
  /** Continue at the first key at or after the target, in the direction of the iterator. */
  seek (target: K): void
  seek<S = K> (target: S, options: { keyEncoding?: string | Transcoder.PartialEncoder<S> |
    undefined }): void
  close (): Promise<void>
  [Symbol.asyncDispose] (): Promise<void>
}

/** A sublevel, with the synchronous methods of {@link Loam}. */
export type Sublevel<TDatabase, KDefault, VDefault> =
  SublevelMethods<TDatabase, KDefault, VDefault> & AbstractSublevel<TDatabase, string | Buffer |
  Uint8Array, KDefault, VDefault>

interface SublevelMethods<TDatabase, KDefault, VDefault> {
  sublevel (name: string | string[]): Sublevel<Sublevel<TDatabase, KDefault, VDefault>, string,
    string>
  sublevel<K = string, V = string> (name: string | string[], options: AbstractSublevelOptions<K,
    V>): Sublevel<Sublevel<TDatabase, KDefault, VDefault>, K, V>

  deleteRange (start: KDefault, limit: KDefault): Promise<void>
  deleteRange<K = KDefault> (start: K, limit: K, options: DelOptions<K>): Promise<void>
  deleteRangeSync (start: KDefault, limit: KDefault): void
  deleteRangeSync<K = KDefault> (start: K, limit: K, options: DelOptions<K>): void
  merge<K = KDefault, V = VDefault> (key: K, operand: V,
    options?: MergeOptions<K, V>): Promise<void>
  mergeSync<K = KDefault, V = VDefault> (key: K, operand: V, options?: MergeOptions<K, V>): void
  compareAndSwap (key: KDefault, old: VDefault | null | undefined, value: VDefault | null |
    undefined): Promise<boolean>
  compareAndSwap<K = KDefault, V = VDefault> (key: K, old: V | null | undefined, value: V | null |
    undefined, options: MergeOptions<K, V>): Promise<boolean>
  putIfAbsent (key: KDefault, value: VDefault): Promise<boolean>
  putIfAbsent<K = KDefault, V = VDefault> (key: K, value: V, options: MergeOptions<K,
    V>): Promise<boolean>
  /** A transaction of the database, in which keys stand without the prefix. */
  transaction<T> (fn: (tx: Transaction<KDefault, VDefault>) => T | Promise<T>,
    options?: TransactionOptions | undefined): Promise<T>
  approximateSize<K = KDefault> (start: K | null | undefined, end: K | null | undefined,
    options?: StartEndOptions<K>): Promise<number>
  approximateSizes<K = KDefault> (ranges: Iterable<Range<K>>,
    options?: StartEndOptions<K>): Promise<number[]>
  compact<K = KDefault> (start?: K | null | undefined, stop?: K | null | undefined,
    options?: CompactOptions<K>): Promise<void>
  /** These two concern the whole database. */
  sync (): Promise<void>
  flush (): Promise<void>
  putSync (key: KDefault, value: VDefault): void
  putSync<K = KDefault, V = VDefault> (key: K, value: V, options: PutOptions<K, V>): void
  delSync (key: KDefault): void
  delSync<K = KDefault> (key: K, options: DelOptions<K>): void
  put (key: KDefault, value: VDefault): Promise<void>
  put<K = KDefault, V = VDefault> (key: K, value: V, options: PutOptions<K, V>): Promise<void>
  del (key: KDefault): Promise<void>
  del<K = KDefault> (key: K, options: DelOptions<K>): Promise<void>
  batchSync (operations: Array<SyncOperation<Sublevel<TDatabase, KDefault, VDefault>, KDefault,
    VDefault>>): void
  batchSync<K = KDefault, V = VDefault> (operations: Array<SyncOperation<Sublevel<TDatabase,
    KDefault, VDefault>, Given<K>, Given<V>>>): void
  batchSync<K = KDefault, V = VDefault> (operations: Array<SyncOperation<Sublevel<TDatabase,
    KDefault, VDefault>, K, V>>, options: BatchOptions<K, V>): void
  iteratorSync (): SyncIterator<KDefault, VDefault>
  iteratorSync<K = KDefault, V = VDefault> (options: IteratorOptions<K, V>): SyncIterator<K, V>
}

/** A block cache for several databases to share: the option `cache`. */
export class Cache {
  constructor (size: Size)
  /** Databases that have it keep it. Closing twice is harmless. */
  close (): void
  [Symbol.dispose] (): void
}

/**
 * Writes a table outside of a database, for {@link Loam.ingest}. Keys ascend, and come once each:
 * otherwise `LEVEL_INVALID_ARGUMENT`, and the table stays as it was. Its calls wait for the disk
 * now and then.
 */
export class TableWriter {
  private constructor ()

  /**
   * Create the file, which must not exist. Of the options, `format` and `comparator` must be those
   * of the database that is to ingest the table, and those count that say how tables are written.
   */
  static create (location: string, options?: OpenOptions | undefined): Promise<TableWriter>

  get location (): string

  /** About how many bytes the file would have if the table were finished now. */
  get size (): number

  /** Add a value, which with `ttl` lives for so many seconds from now on. */
  put (key: string | Uint8Array, value: string | Uint8Array,
    options?: { ttl?: number | undefined } | undefined): void

  /** Add a deletion, of what the database has when the table is ingested. */
  del (key: string | Uint8Array): void

  /** Add the deletion of what the database has from `start` up to, not including, `limit` when the
   * table is ingested. Ranges come in any order. */
  deleteRange (start: string | Uint8Array, limit: string | Uint8Array): void

  /** Make the table durable, under its name. If it fails the file is removed. */
  finish (): Promise<void>

  /** Give up a table that was not finished, and remove its file. Closing twice is harmless. */
  close (): Promise<void>
  [Symbol.asyncDispose] (): Promise<void>
}

export interface IngestOptions<K> {
  /** Remove the files when their entries are durable in the database. Default: false. */
  move?: boolean | undefined
  /** Delete what there is from the first key up to, not including, the second, in the same step. */
  excise?: [K, K] | undefined
  /** Ends it when it is aborted; nothing is ingested then. */
  signal?: AbortSignal | undefined
}

export interface BulkLoadOptions<K, V> {
  keyEncoding?: string | Transcoder.PartialEncoder<K> | undefined
  valueEncoding?: string | Transcoder.PartialEncoder<V> | undefined
  /** Bytes of entries before a sorted run is written into the directory. Default: 4 *
   * `writeBufferSize`. */
  memory?: number | undefined
  /** Ends it when it is aborted; nothing is loaded then. */
  signal?: AbortSignal | undefined
}

/** A folder of backups, which may be of several databases. It is locked until it is closed. */
export class Backups {
  private constructor ()

  /** Open the folder, and make it in a directory that exists when there is none. */
  static open (location: string, options?: BackupsOptions | undefined): Promise<Backups>

  get location (): string

  /** Make a backup of what the database has now, all keyspaces included. What an earlier one has is
   * not copied again. */
  create (db: Loam<any, any>, options?: BackupOptions | undefined): Promise<Backup>

  /** The backups, oldest first. */
  list (): Promise<Backup[]>

  /** Read all files of a backup and compare them with their checksums. The error of damage names
   * every damaged file. */
  verify (id: number, options?: BackupOptions | undefined): Promise<void>

  /** Make `location`, which must not exist, or be empty, a database as it was at the backup. */
  restore (id: number, location: string, options?: BackupOptions | undefined): Promise<void>

  /** Delete a backup, and what no other needs of it. */
  delete (id: number): Promise<void>

  /** Delete, of the backups of each database, all but the newest n. */
  keep (n: number): Promise<void>

  /** End what is under way, and give the folder back. Closing twice is harmless. */
  close (): Promise<void>
}

export interface BackupsOptions {
  /** Change nothing; readers share the folder. */
  readOnly?: boolean | undefined
  /** Fail where there is no folder. */
  errorIfMissing?: boolean | undefined
}

export interface BackupOptions {
  /** Ends it when it is aborted; nothing is left of what it made then. */
  signal?: AbortSignal | undefined
  /** Called some ten times a second with the bytes done and the bytes in all; what it throws ends
   * the work. */
  progress?: ((done: number, total: number) => void) | undefined
  /** Bounds what is read. */
  bytesPerSecond?: number | undefined
}

/** What a folder says of a backup. */
export interface Backup {
  id: number
  created: Date
  /** The directory of the database. */
  database: string
  format: 'native' | 'leveldb' | ''
  files: number
  bytes: number
  /** Of these, what no earlier backup had. */
  newBytes: number
  /** Why it cannot be read: then only `id` is known. */
  error: string | null
}

/** Limits of {@link Resources}; 0, the default, is none of its own, for `backgroundJobs` as many as
 * processors. */
export interface ResourcesOptions {
  /** Cached blocks, memtables, indexes, filters and buffers together, at least 8 MiB; `'auto'`: a
   * quarter of what the process may have, of the limit of its cgroup or the machine's memory. It
   * follows a limit that changes. */
  memory?: Size | 'auto' | undefined
  /** Flushes and compactions at once. */
  backgroundJobs?: number | undefined
  /** What flushes and compactions read and write while no writer waits for them. */
  ioBytesPerSecond?: Size | undefined
  /** Descriptors of tables. */
  openFiles?: number | undefined
}

export interface ResourcesMetrics {
  memory: number
  cache_bytes: number
  table_bytes: number
  memtable_bytes: number
  buffer_bytes: number
  jobs: number
  open_files: number
}

/** What several databases share: the option `resources`. */
export class Resources {
  constructor (options?: ResourcesOptions | undefined)
  /** Change a limit at once; `memory` up to what it was at first, or to `'auto'`. */
  set (name: keyof ResourcesOptions, value: Size | 'auto'): void
  /** How much is in use, once a database was opened. */
  metrics (): ResourcesMetrics
  /** Databases that have it keep it. Closing twice is harmless. */
  close (): void
  [Symbol.dispose] (): void
}

/** The option `compactionFilter` that removes the keys beginning with one of the prefixes. */
export function prefixFilter (...prefixes: Array<string | Uint8Array>): string

/** From start up to, not including, stop. */
export type Range<K> = readonly [start: K | null | undefined, stop: K | null | undefined]

/** A key, and how many files have it; `''` as provider and id are files that are not encrypted. */
export interface KeyUse {
  provider: string
  id: string
  files: number
}

export interface RecoveryReport {
  /** Damaged parts of logs that were left out. */
  dropped: Array<Record<string, any>>
  /** Whether the database had been closed in order. */
  was_clean: boolean
  [name: string]: any
}

/** An iterator that reads on the calling thread. */
export interface SyncIterator<K, V> extends IterableIterator<[K, V]> {
  next (): IteratorResult<[K, V], undefined>
  /** Up to `size` entries; none at the end. */
  nextv (size: number): Array<[K, V]>
  /** All entries that are left. Closes the iterator. */
  all (): Array<[K, V]>
  /** Continue at the first key at or after the target, in the direction of the iterator. */
  seek (target: K): void
  seek<T = K> (target: T, options: { keyEncoding?: string | Transcoder.PartialEncoder<T> |
    undefined }): void
  close (): void
  [Symbol.dispose] (): void
}

/** Options of the constructor. */
export interface DatabaseOptions<K, V>
  extends AbstractDatabaseOptions<K, V>, Omit<OpenOptions, 'passive'> {}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** Sizes are in bytes, or text such as `'64MiB'`. */
export type Size = number | string

/** How blocks of tables are compressed. */
export type CompressionName = 'none' | 'snappy' | 'zstd'

/** Options of {@link Loam.open}. What is left out has the engine's default. */
export interface OpenOptions extends AbstractOpenOptions {
  /**
   * The format of a new database: native by default, in a {@link ClassicLevel} leveldb, which
   * LevelDB and its tools open. One that exists keeps its own.
   */
  format?: 'leveldb' | 'native' | undefined
  /**
   * What makes values of operands, by name, as functions could not be called from the engine's
   * threads: uint64add, int64add, max, min, append, append:DELIMITER or json_merge. Stored.
   */
  mergeOperator?: string | undefined
  /** Operands that reads fold without causing a flush or compaction. Default: 1000. */
  maxMergeOperands?: number | undefined
  /** Values that are written once, in the log, by their length; see docs/values.md. Default: 0,
   * none. */
  largeValue?: Size | undefined
  /** How long values live that are put without a time to live: seconds, or text such as `'10m'`. */
  defaultTtl?: number | string | undefined
  /** Read what another process writes; see {@link Loam.follow}. */
  follow?: boolean | undefined
  /** How often a follower catches up by itself: seconds, or text such as `'50ms'`. Default: never.
   * */
  followInterval?: number | string | undefined
  /**
   * Compress blocks; `true` means `'snappy'`. A list is of level 0 and those below it: the last
   * one counts for all deeper levels.
   */
  compression?: boolean | CompressionName | readonly CompressionName[] |
    `${CompressionName},${string}` | undefined
  zstdLevel?: number | undefined
  /** Memory for decompressed blocks, filters and indexes. */
  cacheSize?: Size | undefined
  /** Data held in memory before it is written to a table. */
  writeBufferSize?: Size | undefined
  maxMemtables?: number | undefined
  blockSize?: Size | undefined
  blockRestartInterval?: number | undefined
  maxFileSize?: Size | undefined
  maxOpenFiles?: number | undefined
  /** Bits per key of the tables' filters. */
  bloomBits?: number | undefined
  /**
   * Filters also hold so many bytes at the beginnings of keys: iterators within one such prefix
   * pass over tables without it. Default: 0, none.
   */
  prefixLength?: number | undefined
  /** Write filters as LevelDB does. */
  leveldbFilter?: boolean | undefined
  maxDecodedBlock?: Size | undefined
  maxBackgroundJobs?: number | undefined
  maxSubcompactions?: number | undefined
  l0Compaction?: number | undefined
  l0Stop?: number | undefined
  /** Space of the tables when writes are not fast, as a multiple of the live data. Default: 1.3. */
  maxSpaceAmplification?: number | undefined
  walPreallocate?: Size | undefined
  /** Size of the logs at which keyspaces that keep old ones are flushed. Default: four write
   * buffers. */
  maxWalSize?: Size | undefined
  /** Memory of the memtables of all keyspaces. Default: `maxMemtables` write buffers. */
  maxMemtableBytes?: Size | undefined
  /** Read tables in mapped files. Default: 'off', as the host may take SIGBUS for itself. */
  mmap?: 'auto' | 'on' | 'off' | undefined
  /** Read and write tables of compactions past the page cache (Linux). Default: false. */
  compactionDirectIo?: boolean | undefined
  disableCompaction?: boolean | undefined
  /** Keys of the encryption at rest: `file:` and the path of a key file, `key:` and 64 hexadecimal
   * digits, or `passphrase:` and a passphrase; native format, see docs/encryption.md. */
  encryption?: string | undefined
  /** Beside `encryption`, read files that are not encrypted. Default: false. */
  allowClear?: boolean | undefined
  /** Answer `loam top` and others on a socket in the directory, see docs/observe.md.
   * Default: false, or the environment's LOAM_INSPECT. */
  inspect?: boolean | undefined
  /** Open without writing anything. */
  readOnly?: boolean | undefined
  /** Make missing directories above the location too. Default: true. */
  createDirs?: boolean | undefined
  /** The order of the keys: a built-in one. Fixed when the database is created. */
  comparator?: 'leveldb.BytewiseComparator' | 'rocksdb.ReverseBytewiseComparator' | 'idb_cmp1' |
    undefined
  /** What compactions remove, by name: `prefixFilter('tmp/', 'cache/')`, or `'none'`. */
  compactionFilter?: string | undefined
  /** What flushes and compactions of this database read and write in a second while no writer
   * waits. Default: 0, no bound. */
  compactionRate?: Size | undefined
  /** Logs kept for feeds of changes beyond need. Default: 0, none, or no limit if
   * `walRetentionSeconds` is set. */
  walRetentionBytes?: Size | undefined
  /** How long logs are kept for feeds of changes. Default: 0, not, or no limit if
   * `walRetentionBytes` is set. */
  walRetentionSeconds?: number | string | undefined
  /** What to share with other databases: memory, background work, I/O and descriptors. */
  resources?: Resources | undefined
  /** A cache to share, instead of one of `cacheSize`. */
  cache?: Cache | undefined
  /** Where the engine's messages go: a function, or something like the console. */
  logger?: ((level: LogLevel, message: string) => void) | Record<LogLevel, (message: string) =>
    void> | undefined
  /** Share the database with the worker threads of this process that open it with this option too.
   * */
  multithreading?: boolean | undefined
}

interface ReadOptions {
  /** Keep the blocks that were read in the cache. Default: true; of iterators: false. */
  fillCache?: boolean | undefined
}

interface WriteOptions {
  /** Resolve when the data is on disk, not only in the operating system. Default: false. */
  sync?: boolean | undefined
}

export interface GetOptions<K, V> extends AbstractGetOptions<K, V>, ReadOptions {}
export interface GetManyOptions<K, V> extends AbstractGetManyOptions<K, V>, ReadOptions {}
export interface HasOptions<K> extends AbstractHasOptions<K>, ReadOptions {}
export interface HasManyOptions<K> extends AbstractHasManyOptions<K>, ReadOptions {}
/** Options of writes that give their value no time to live. */
export interface MergeOptions<K, V> extends AbstractPutOptions<K, V>, WriteOptions {}
export interface PutOptions<K, V> extends MergeOptions<K, V> {
  /** Seconds after which the value expires, rounded up. Native databases only. The default is for
   * ever. */
  ttl?: number | undefined
}
export interface DelOptions<K> extends AbstractDelOptions<K>, WriteOptions {}
export interface BatchOptions<K, V> extends AbstractBatchOptions<K, V>, WriteOptions {}
export interface ChainedBatchWriteOptions extends AbstractChainedBatchWriteOptions, WriteOptions {}
export interface ClearOptions<K> extends AbstractClearOptions<K>, WriteOptions {}

export interface AdditionalIteratorOptions extends ReadOptions {
  /**
   * Reading ahead stops with the entry that goes above so many bytes: with 0,
   * after each. Default: about 64 KiB.
   */
  highWaterMarkBytes?: number | undefined
}

export interface StartEndOptions<K> {
  /** Encoding of `start` and `end`. */
  keyEncoding?: string | Transcoder.PartialEncoder<K> | undefined
}

export interface VerifyOptions {
  /** Ends it when it is aborted. */
  signal?: AbortSignal | undefined
  /** Called some ten times a second, and at the end, with the bytes read and the bytes in all. What
   * it throws ends it too. */
  progress?: ((done: number, total: number) => void) | undefined
}

export interface CatchUpOptions {
  /** Ends it when it is aborted; the next call goes on. */
  signal?: AbortSignal | undefined
}

/** How far a follower is behind its directory. */
export interface Lag {
  /** Operations in the directory that the follower does not show. */
  operations: number
  /** At most so many seconds ago there was none; 0 if there is none. */
  seconds: number
}

/** Read a dump and check all of it. */
export function verifyDump (file: string | NodeJS.ReadableStream, options?: VerifyOptions |
  undefined): Promise<DumpInfo>

/** What a dump has. */
export interface DumpInfo {
  id: string
  created: Date
  /** The sequence number of the state in the database that was dumped. */
  sequence: number
  keyspaces: Array<{ name: string, comparator: string, mergeOperator: string, expires: boolean,
    entries: number }>
  /** Of all keys and values. */
  bytes: number
  /** Of the dump, in bytes. */
  size: number
}

export interface DumpOptions extends VerifyOptions {
  snapshot?: AbstractSnapshot | undefined
  /** `'snappy'` (default), `'zstd'` or `'none'`. */
  compression?: 'snappy' | 'zstd' | 'none' | undefined
  /** Complete the dump in the file, which was cut, if the database is as it was at its beginning.
   * */
  resume?: boolean | undefined
}

export interface LoadOptions extends VerifyOptions {
  /** Entries of the dump replace what is there. */
  overwrite?: boolean | undefined
}

export interface ChangesOptions {
  /** The sequence number to begin with. 0, the default, is the first that is there. */
  from?: number | undefined
  /** Show only what a power cut does not take back. The default is false. */
  durable?: boolean | undefined
  /** Closes the feed when it is aborted. */
  signal?: AbortSignal | undefined
}

/** A feed of changes, see {@link Loam.changes}. */
export interface Changes extends AsyncIterable<Change> {
  /** The sequence number behind the changes that were handed out: a feed that begins there goes
   * on. */
  readonly position: number
  /** The next change, for which it waits; undefined when the feed was closed. */
  next (): Promise<Change | undefined>
  /** The next change if there is one. */
  poll (): Promise<Change | undefined>
  close (): Promise<void>
}

/** A type argument that is not inferred from the arguments. */
type Given<T> = [T][T extends any ? 0 : never]

/** A batch that was committed, or several ones that share a record of the log. */
export interface Change {
  /** The sequence number of the first operation. */
  readonly seq: number
  /** The sequence number behind the change, to go on from. */
  readonly next: number
  /** The operations in wire form. */
  readonly batch: Buffer
  readonly operations: ChangeOperation[]
}

export interface ChangeOperation {
  seq: number
  type: 'put' | 'del' | 'merge' | 'deleteRange'
  /** undefined: it was dropped since. */
  keyspace: string | undefined
  /** The key, or where a range begins. */
  key: Buffer
  /** The value, the operand, or where a range ends. */
  value?: Buffer
  /** When the value expires. */
  expires?: Date
}

export interface CheckpointOptions {
  /** Ends it when it is aborted; nothing is left of it then. */
  signal?: AbortSignal | undefined
}

export interface CompactOptions<K> extends StartEndOptions<K> {
  /** Ends the compaction when it is aborted; what has been compacted stays so. */
  signal?: AbortSignal | undefined
  /**
   * Called some ten times a second, and at the end, with the bytes done and the
   * bytes in all. What it throws ends the compaction too.
   */
  progress?: ((done: number, total: number) => void) | undefined
}

export interface ChainedBatch<TDatabase, KDefault,
  VDefault> extends AbstractChainedBatch<TDatabase, KDefault, VDefault> {
  put (key: KDefault, value: VDefault): this
  put<K = KDefault, V = VDefault> (key: K, value: V,
    options: AbstractChainedBatchPutOptions<TDatabase, K, V> & InKeyspace & Expiring): this

  del (key: KDefault): this
  del<K = KDefault> (key: K,
    options: AbstractChainedBatchDelOptions<TDatabase, K> & InKeyspace): this

  write (): Promise<void>
  write (options: ChainedBatchWriteOptions): Promise<void>
}

interface InKeyspace {
  /** The keyspace of the operation, or the database itself; by default the one that is written. */
  keyspace?: Loam<any, any> | undefined
}

interface Expiring {
  /** Of a put, as in {@link PutOptions}. */
  ttl?: number | undefined
}

export type BatchOperation<TDatabase, K, V> = InKeyspace & (
  (AbstractBatchPutOperation<TDatabase, K, V> & Expiring) | AbstractBatchDelOperation<TDatabase, K>)

/** What {@link Loam.batchSync} takes: merges, too. */
export type SyncOperation<TDatabase, K, V> = BatchOperation<TDatabase, K, V> | (InKeyspace &
  Omit<AbstractBatchPutOperation<TDatabase, K, V>, 'type'> & { type: 'merge' })

/** Options of {@link Loam.keyspace}. What is not set is as in the database. */
export interface KeyspaceOptions<K, V> extends AbstractDatabaseOptions<K, V>, Pick<OpenOptions,
  'comparator' | 'compression' | 'bloomBits' | 'prefixLength' | 'mergeOperator' |
  'compactionFilter' | 'defaultTtl'> {}
export type Iterator<TDatabase, K, V> = AbstractIterator<TDatabase, K, V>
export type KeyIterator<TDatabase, K> = AbstractKeyIterator<TDatabase, K>
export type ValueIterator<TDatabase, K, V> = AbstractValueIterator<TDatabase, K, V>
export type IteratorOptions<K, V> = AbstractIteratorOptions<K, V> & AdditionalIteratorOptions
export type KeyIteratorOptions<K> = AbstractKeyIteratorOptions<K> & AdditionalIteratorOptions
export type ValueIteratorOptions<K, V> = AbstractValueIteratorOptions<K,
  V> & AdditionalIteratorOptions
export type Snapshot = AbstractSnapshot
