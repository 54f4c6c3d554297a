// A client of loamd in plain JavaScript, which needs no engine.

/** How keys and values are given and returned. The default is `'utf8'`. */
export type Encoding = 'utf8' | 'buffer' | 'view' | 'json'

export interface ConnectOptions {
  /** What the nodes want to know. */
  token?: string
  /** Options of `tls.connect`: TLS. */
  tls?: import('tls').ConnectionOptions
  /** Name of the cluster; nodes of others refuse the client. */
  cluster?: string
  /** Milliseconds that a call takes at most, with all tries; default 10,000. */
  timeout?: number
  /** Milliseconds that a call which may be tried again waits for one node; default 3,000. */
  tryTimeout?: number
  keyEncoding?: Encoding
  valueEncoding?: Encoding
}

export interface CallOptions {
  keyEncoding?: Encoding
  valueEncoding?: Encoding
  /** Instead of {@link ConnectOptions.timeout}. */
  timeout?: number
}

export interface ChangeOptions extends CallOptions {
  /**
   * Idempotency key of at most 255 bytes: the change takes effect once, however often it is tried,
   * and is tried again where its outcome is unknown. The nodes know the last 65,536 keys.
   */
  once?: string
}

export interface RangeOptions<K> extends CallOptions {
  gt?: K
  gte?: K
  lt?: K
  lte?: K
  reverse?: boolean
  limit?: number
}

export type Operation<K, V> =
  { type: 'put', key: K, value: V, keyEncoding?: Encoding, valueEncoding?: Encoding } |
  { type: 'del', key: K, keyEncoding?: Encoding }

/** An iterator over one state. It holds one chunk of at most 256 KiB, or one entry. */
export interface RemoteIterator<T, K> extends AsyncIterable<T>, AsyncDisposable {
  /** Resolves to `undefined` at the end. */
  next (): Promise<T | undefined>
  /** Resolves to at most `n` entries; none at the end. */
  nextv (n: number): Promise<T[]>
  /** Resolves to all further entries, and closes the iterator. */
  all (): Promise<T[]>
  /** Go to the first entry at or behind a key, in the iterator's direction. */
  seek (target: K): void
  close (): Promise<void>
}

/** Reads of one state, or of the present one. */
export interface RemoteReader<K, V> {
  get (key: K, options?: CallOptions): Promise<V | undefined>
  /** Looks up many keys in one state. */
  getMany (keys: K[], options?: CallOptions): Promise<Array<V | undefined>>
  has (key: K, options?: CallOptions): Promise<boolean>
  iterator (options?: RangeOptions<K>): RemoteIterator<[K, V], K>
}

/**
 * A state of one node, until `close()`. Rejects with `LEVEL_SNAPSHOT_GONE` when the connection was
 * lost, or after a minute without a read.
 */
export interface RemoteSnapshot<K, V> extends RemoteReader<K, V>, AsyncDisposable {
  close (): Promise<void>
}

export interface RemoteTransaction<K, V> {
  get (key: K, options?: CallOptions): Promise<V | undefined>
  put (key: K, value: V, options?: CallOptions): void
  del (key: K, options?: CallOptions): void
}

export interface Status {
  cluster: string
  id: string
  addr: string
  state: 'Leader' | 'Follower' | 'Candidate' | 'Shutdown'
  leader: string
  leader_addr: string
  term: number
  commit: number
  applied: number
  last_snapshot: number
  halted?: string
  members: Array<{ id: string, addr: string, voter: boolean }>
}

/**
 * An error of a node or of the way to it. Of a change that failed either `notApplied` or `unknown`
 * is true.
 */
export class RemoteError extends Error {
  readonly code: string
  /** The change did not happen, and will not: it is safe to try again. */
  readonly notApplied: boolean
  /** The change may have happened, or may yet. */
  readonly unknown: boolean
}

/**
 * A database behind loamd. Its reads see everything that had returned when they began, but those of
 * {@link local}. A change that resolved is on stable storage of a majority of the nodes.
 */
export class Remote<K = string, V = string> implements RemoteReader<K, V>, AsyncDisposable {
  constructor (url: string, options?: ConnectOptions)
  get (key: K, options?: CallOptions): Promise<V | undefined>
  getMany (keys: K[], options?: CallOptions): Promise<Array<V | undefined>>
  has (key: K, options?: CallOptions): Promise<boolean>
  iterator (options?: RangeOptions<K>): RemoteIterator<[K, V], K>
  keys (options?: RangeOptions<K>): RemoteIterator<K, K>
  values (options?: RangeOptions<K>): RemoteIterator<V, K>
  snapshot (options?: { timeout?: number }): Promise<RemoteSnapshot<K, V>>
  /**
   * Reads of what a node has: everything that had returned `maxLag` milliseconds before is in it;
   * 0, the default, and `Infinity`: any state.
   */
  local (maxLag?: number): RemoteReader<K, V>
  status (options?: { timeout?: number }): Promise<Status>

  put (key: K, value: V, options?: ChangeOptions): Promise<void>
  del (key: K, options?: ChangeOptions): Promise<void>
  /** All operations take effect together. At most 8 MiB. */
  batch (operations: Array<Operation<K, V>>, options?: ChangeOptions): Promise<void>
  /** Delete all keys from `start` up to, not including, `limit`. */
  deleteRange (start: K, limit: K, options?: ChangeOptions): Promise<void>
  /** Store a value if the key has the value `old`; `undefined` or `null`: none. */
  compareAndSwap (key: K, old: V | null | undefined, value: V | null | undefined,
    options?: ChangeOptions): Promise<boolean>
  putIfAbsent (key: K, value: V, options?: ChangeOptions): Promise<boolean>
  /**
   * Call a function with a transaction and commit what it wrote. Nothing that it read was changed
   * by others before the commit: else the function is called again. Resolves to what it gave.
   */
  transaction<T> (fn: (tx: RemoteTransaction<K, V>) => T | Promise<T>,
    options?: CallOptions): Promise<T>

  addVoter (id: string, addr: string, options?: { timeout?: number }): Promise<void>
  addReader (id: string, addr: string, options?: { timeout?: number }): Promise<void>
  remove (id: string, options?: { timeout?: number }): Promise<void>
  /** Make another voter the leader; no ID: any. */
  transferLeader (id?: string, options?: { timeout?: number }): Promise<void>

  /** Calls that wait reject. */
  close (): Promise<void>
  [Symbol.asyncDispose] (): Promise<void>
}

/**
 * Make a client of some nodes of a cluster: `connect('loam://a:7070,b:7070')`, or `loams://` for
 * TLS with the authorities of Node unless `tls` has others. It does not wait for a node.
 */
export function connect<K = string, V = string> (url: string,
  options?: ConnectOptions): Remote<K, V>
