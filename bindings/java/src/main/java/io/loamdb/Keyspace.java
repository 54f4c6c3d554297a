package io.loamdb;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * A key space of its own within a database, from {@link Loam#keyspace}. {@link Loam} is the
 * keyspace {@code "default"}.
 *
 * <p>A write is in the kernel's hands when the call returns: it survives the end of the process.
 * With {@link WriteOptions#SYNC} it also survives a power cut. Arrays that are given are copied
 * before the call returns; those that are returned are the caller's. All methods are safe for use
 * by several threads, and throw {@link LoamException}; {@link NullPointerException} for null where
 * nothing else is said. Long work ({@link #compactRange}, {@link #ingest}) is cancelled by an
 * interrupt; shorter calls ignore it.
 */
public class Keyspace extends NativeObject {
  private final Keyspace db; // stays reachable; null for a database
  private final String name;

  Keyspace(Keyspace db, String name, long handle) {
    super(Kind.DATABASE, handle);
    this.db = db;
    this.name = name;
  }

  /** Its name. */
  public String name() {
    return name;
  }

  /** The value of a key; null: it has none. */
  public byte[] get(byte[] key) {
    return Native.get(this, null, 0, Objects.requireNonNull(key, "key"));
  }

  /** The value of a key; null: it has none. */
  public byte[] get(byte[] key, ReadOptions options) {
    return Native.get(this, options.snapshot, readFlags(options),
        Objects.requireNonNull(key, "key"));
  }

  /**
   * Stores the value of a key at the position of a buffer, whose limit becomes the value's end, if
   * there is room. Without a copy on the heap when both buffers are direct: their memory must stay
   * until the call returns.
   *
   * @return the length of the value, which may be larger than what is left in the buffer; -1: the
   *     key has none
   */
  public long get(ByteBuffer key, ByteBuffer value, ReadOptions options) {
    if (!key.isDirect() || !value.isDirect() || value.isReadOnly()) {
      return getHeap(key, value, options);
    }
    int keyAt = key.position();
    int valueAt = value.position();
    int room = Bytes.directLength(value, valueAt);
    long length = Native.getDirect(this, options.snapshot, readFlags(options), key, keyAt,
        Bytes.directLength(key, keyAt), value, valueAt, room);
    if (length >= 0 && length <= room) {
      value.limit(valueAt + (int) length);
    }
    return length;
  }

  private long getHeap(ByteBuffer key, ByteBuffer value, ReadOptions options) {
    byte[] found = get(Bytes.of(key), options);
    if (found == null) {
      return -1;
    }
    if (found.length <= value.remaining()) {
      value.duplicate().put(found);
      value.limit(value.position() + found.length);
    }
    return found.length;
  }

  /** Whether a key has a value. */
  public boolean has(byte[] key) {
    return has(key, ReadOptions.DEFAULT);
  }

  /** Whether a key has a value. */
  public boolean has(byte[] key, ReadOptions options) {
    return Native.has(this, options.snapshot, readFlags(options),
        Objects.requireNonNull(key, "key"));
  }

  /** The values of keys in one state of the database, in their order; null for a missing key. */
  public List<byte[]> multiGet(List<byte[]> keys) {
    return multiGet(keys, ReadOptions.DEFAULT);
  }

  /** The values of keys in one state of the database, in their order; null for a missing key. */
  public List<byte[]> multiGet(List<byte[]> keys, ReadOptions options) {
    byte[][] all = keys.toArray(new byte[0][]); // the list may change meanwhile
    return Bytes.unpack(
        Native.multiGet(this, options.snapshot, readFlags(options), Bytes.pack(all), all.length),
        all.length);
  }

  /**
   * How long a key has its value: empty if it has none, {@link Loam#FOREVER} if it does not expire.
   */
  public Optional<Duration> ttl(byte[] key) {
    long left = Native.ttl(this, null, 0, Objects.requireNonNull(key, "key"));
    return left == -1 ? Optional.empty()
        : Optional.of(left == -2 ? Loam.FOREVER : Duration.ofMillis(left));
  }

  /** An iterator over all entries. */
  public LoamIterator iterator() {
    return iterator(ReadOptions.DEFAULT);
  }

  /** An iterator over a range. */
  public LoamIterator iterator(ReadOptions options) {
    return new LoamIterator(this, null, options);
  }

  /** The entries of a range, in their order. Close the stream: it has an iterator. */
  public Stream<Entry> stream(ReadOptions options) {
    LoamIterator it = iterator(options);
    int traits = Spliterator.ORDERED | Spliterator.DISTINCT | Spliterator.NONNULL;
    return StreamSupport
        .stream(Spliterators.spliteratorUnknownSize(it.asIterator(), traits), false)
        .onClose(it::close);
  }

  /**
   * Stores a value under a key.
   *
   * @return the sequence number of the write, as of all writes: later ones have larger numbers
   */
  public long put(byte[] key, byte[] value) {
    return put(key, value, WriteOptions.DEFAULT);
  }

  /** Stores a value under a key. */
  public long put(byte[] key, byte[] value, WriteOptions options) {
    return write(Native.OP_PUT, key, Objects.requireNonNull(value, "value"), 0, options);
  }

  /**
   * Stores what is left in a buffer; positions stay. Without a copy when both are direct: their
   * memory must stay until the call returns.
   */
  public long put(ByteBuffer key, ByteBuffer value, WriteOptions options) {
    if (!key.isDirect() || !value.isDirect()) {
      return put(Bytes.of(key), Bytes.of(value), options);
    }
    int keyAt = key.position();
    int valueAt = value.position();
    return Native.putDirect(this, options.flags(), key, keyAt, Bytes.directLength(key, keyAt),
        value, valueAt, Bytes.directLength(value, valueAt));
  }

  /**
   * Stores a value that expires: after so many seconds, from 1 to 9223372036, the key has none.
   *
   * @throws LoamException.NeedsNative the database has LevelDB's format
   */
  public long put(byte[] key, byte[] value, long seconds, WriteOptions options) {
    return write(Native.OP_PUT_TTL, key, Objects.requireNonNull(value, "value"),
        WriteBatch.checkSeconds(seconds), options);
  }

  /** Removes a key, whether it exists or not. */
  public long delete(byte[] key) {
    return delete(key, WriteOptions.DEFAULT);
  }

  /** Removes a key, whether it exists or not. */
  public long delete(byte[] key, WriteOptions options) {
    return write(Native.OP_DELETE, key, null, 0, options);
  }

  /** Removes all keys from start up to, not including, limit, at the cost of one put. */
  public long deleteRange(byte[] start, byte[] limit) {
    return deleteRange(start, limit, WriteOptions.DEFAULT);
  }

  /**
   * Removes all keys from start up to, not including, limit, at the cost of one put.
   *
   * @throws LoamException.NeedsNative the database has LevelDB's format
   */
  public long deleteRange(byte[] start, byte[] limit, WriteOptions options) {
    return write(Native.OP_DELETE_RANGE, start, Objects.requireNonNull(limit, "limit"), 0, options);
  }

  /** Adds an operand to a key. */
  public long merge(byte[] key, byte[] operand) {
    return merge(key, operand, WriteOptions.DEFAULT);
  }

  /**
   * Adds an operand to a key, whose value is from then on what the merge operator makes of the
   * value before and the operand; nothing is read.
   *
   * @throws LoamException.NoMergeOperator the options named none
   * @throws LoamException.NeedsNative the database has LevelDB's format
   */
  public long merge(byte[] key, byte[] operand, WriteOptions options) {
    return write(Native.OP_MERGE, key, Objects.requireNonNull(operand, "operand"), 0, options);
  }

  private long write(int kind, byte[] key, byte[] value, long seconds, WriteOptions options) {
    return Native.write(this, kind, options.flags(), Objects.requireNonNull(key, "key"), value,
        seconds);
  }

  /** Writes a batch, which stays as it is. */
  public long write(WriteBatch batch) {
    return write(batch, WriteOptions.DEFAULT);
  }

  /**
   * Writes a batch. An empty one with {@link WriteOptions#SYNC} makes earlier writes durable.
   *
   * @throws LoamException.InvalidArgument the batch names a keyspace of another database
   */
  public long write(WriteBatch batch, WriteOptions options) {
    batch.checkDatabase(this);
    return Native.writeBatch(this, options.flags(), batch.data(), batch.size());
  }

  /**
   * Stores a value if the key has the value old now; null is no value, on both sides.
   *
   * @return whether it was done
   */
  public boolean compareAndSwap(byte[] key, byte[] old, byte[] value, WriteOptions options) {
    return Native.compareAndSwap(this, options.flags(), Objects.requireNonNull(key, "key"), old,
        value);
  }

  /** Stores a value if the key has none; returns whether it did. */
  public boolean putIfAbsent(byte[] key, byte[] value) {
    return compareAndSwap(key, null, Objects.requireNonNull(value, "value"), WriteOptions.DEFAULT);
  }

  /** Writes the memtable into tables. */
  public void flush() {
    Native.upkeep(Native.FLUSH, this);
  }

  /** Merges all tables. */
  public void compactRange() {
    compactRange(null, null);
  }

  /** Merges what lies from start up to, not including, stop; null: no bound. */
  public void compactRange(byte[] start, byte[] stop) {
    Job.run(Native.start(Native.COMPACT, this, start, stop), this);
  }

  /** Bytes on disk of the keys from start up to, not including, stop; null: no bound. */
  public long approximateSize(byte[] start, byte[] stop) {
    return Native.approximateSize(this, start, stop);
  }

  /** What {@link #ingest} does beside taking tables. */
  public record Ingest(boolean move, byte[] exciseStart, byte[] exciseStop) {
    /** The files stay, and must not be changed afterwards. */
    public static final Ingest COPY = new Ingest(false, null, null);
    /** The files are removed when their entries are durable in the database. */
    public static final Ingest MOVE = new Ingest(true, null, null);

    private int flags() {
      return (move ? 1 : 0) | (exciseStart != null || exciseStop != null ? 2 : 0);
    }
  }

  /**
   * Takes tables of {@link TableWriter}, all or none of them: newer than all that is there,
   * invisible to open snapshots and iterators, durable when it returns.
   *
   * @throws LoamException.InvalidArgument tables overlap, or are of another format
   * @throws LoamException.Corruption a table is damaged
   */
  public void ingest(List<Path> tables, Ingest how) {
    Bytes paths = new Bytes(64);
    int count = 0;
    for (Path table : tables) {
      paths.add(Native.path(table));
      paths.addByte(0);
      count++;
    }
    Job.run(Native.ingestStart(this, how.flags(), how.exciseStart, how.exciseStop, paths.data,
        count), this);
  }

  /**
   * Begins a load: puts in any order, which are sorted and ingested in one step.
   *
   * @param memory bytes of entries before a sorted run is written; 0: four write buffers
   */
  public BulkLoad bulkLoad(long memory) {
    return new BulkLoad(this, Native.count("memory", memory));
  }

  /**
   * Changes an option while the database is open: that of the database and all keyspaces without a
   * value of their own or, called on a keyspace, of that one. It is not stored.
   *
   * @throws LoamException.InvalidArgument an unknown name, a bad value, or it needs a reopen
   */
  public void setOption(String option, Object value) {
    Native.setOption(this, Native.text(option), Native.text(String.valueOf(value)));
  }

  /** The value of an option that is in force. */
  public String option(String option) {
    return information(Native.OPTION, option);
  }

  /** One of LevelDB's properties, such as {@code "leveldb.stats"}; null: it is unknown. */
  public String property(String property) {
    return information(Native.PROPERTY, Objects.requireNonNull(property, "property"));
  }

  /** All counters, as JSON; docs/metrics.md describes them. */
  public String metrics() {
    return information(Native.METRICS, null);
  }

  /** The name of the order of the keys. */
  public String comparatorName() {
    return information(Native.COMPARATOR, null);
  }

  final String information(int what, String argument) {
    return Native.string(Native.information(what, this, Native.text(argument)));
  }

  final Keyspace database() {
    return db == null ? this : db;
  }

  /** By which batches name it. */
  int number() {
    return Native.keyspaceNumber(this);
  }

  private static int readFlags(ReadOptions options) {
    return options.flags() & ~Native.KEYS_ONLY;
  }

  @Override
  public String toString() {
    return getClass().getSimpleName() + "[" + (db == null ? "" : db + " ") + name + "]";
  }
}
