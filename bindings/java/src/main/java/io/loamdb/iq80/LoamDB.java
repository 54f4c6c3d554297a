package io.loamdb.iq80;

import io.loamdb.Loam;
import io.loamdb.LoamException;
import java.util.Arrays;
import java.util.function.Supplier;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBComparator;
import org.iq80.leveldb.DBException;
import org.iq80.leveldb.DBIterator;
import org.iq80.leveldb.Range;
import org.iq80.leveldb.ReadOptions;
import org.iq80.leveldb.Snapshot;
import org.iq80.leveldb.WriteBatch;
import org.iq80.leveldb.WriteOptions;

/**
 * A database of {@link LoamDBFactory}. Failures are {@link DBException}s whose causes are {@link
 * LoamException}s. Safe for use by several threads.
 */
public final class LoamDB implements DB {
  private final Loam loam;
  private final DBComparator order; // null: bytewise

  LoamDB(Loam loam, DBComparator order) {
    this.loam = loam;
    this.order = order;
  }

  /** The database, with all that Loam has. */
  public Loam loam() {
    return loam;
  }

  static <T> T translated(Supplier<T> call) {
    try {
      return call.get();
    } catch (LoamException e) {
      throw new DBException(e.getMessage(), e);
    }
  }

  @Override
  public byte[] get(byte[] key) {
    return translated(() -> loam.get(key));
  }

  @Override
  public byte[] get(byte[] key, ReadOptions options) {
    return translated(() -> loam.get(key, translate(options)));
  }

  @Override
  public DBIterator iterator() {
    return iterator(new ReadOptions());
  }

  @Override
  public DBIterator iterator(ReadOptions options) {
    return translated(() -> new LoamDBIterator(loam.iterator(translate(options))));
  }

  @Override
  public void put(byte[] key, byte[] value) {
    translated(() -> loam.put(key, value));
  }

  @Override
  public void delete(byte[] key) {
    translated(() -> loam.delete(key));
  }

  @Override
  public void write(WriteBatch updates) {
    translated(() -> loam.write(((LoamWriteBatch) updates).batch));
  }

  @Override
  public WriteBatch createWriteBatch() {
    return new LoamWriteBatch();
  }

  @Override
  public Snapshot put(byte[] key, byte[] value, WriteOptions options) {
    translated(() -> loam.put(key, value, translate(options)));
    return after(options);
  }

  @Override
  public Snapshot delete(byte[] key, WriteOptions options) {
    translated(() -> loam.delete(key, translate(options)));
    return after(options);
  }

  @Override
  public Snapshot write(WriteBatch updates, WriteOptions options) {
    translated(() -> loam.write(((LoamWriteBatch) updates).batch, translate(options)));
    return after(options);
  }

  private Snapshot after(WriteOptions options) {
    return options.snapshot() ? getSnapshot() : null;
  }

  @Override
  public Snapshot getSnapshot() {
    return translated(() -> new LoamSnapshot(loam.snapshot()));
  }

  @Override
  public long[] getApproximateSizes(Range... ranges) {
    return translated(() -> Arrays.stream(ranges)
        .mapToLong(range -> loam.approximateSize(range.start(), range.limit())).toArray());
  }

  @Override
  public String getProperty(String name) {
    return translated(() -> loam.property(name));
  }

  @Override
  public void suspendCompactions() {
    translated(() -> {
      loam.pauseCompaction();
      return null;
    });
  }

  @Override
  public void resumeCompactions() {
    translated(() -> {
      loam.resumeCompaction();
      return null;
    });
  }

  /**
   * Compacts the keys from begin up to end, both included; null: no bound. A begin behind end has
   * nothing to compact.
   */
  @Override
  public void compactRange(byte[] begin, byte[] end) {
    byte[] stop = end == null || order != null ? end : Arrays.copyOf(end, end.length + 1);
    translated(() -> {
      try {
        loam.compactRange(begin, stop);
      } catch (LoamException.InvalidArgument e) {
        if (begin == null || end == null || !isBefore(end, begin)) {
          throw e;
        }
      }
      return null;
    });
  }

  private boolean isBefore(byte[] a, byte[] b) {
    return (order == null ? Arrays.compareUnsigned(a, b) : order.compare(a, b)) < 0;
  }

  @Override
  public void close() {
    translated(() -> {
      loam.close();
      return null;
    });
  }

  private static io.loamdb.ReadOptions translate(ReadOptions options) {
    io.loamdb.ReadOptions translated =
        new io.loamdb.ReadOptions().fillCache(options.fillCache());
    if (options.snapshot() != null) {
      translated.snapshot(((LoamSnapshot) options.snapshot()).snapshot());
    }
    return translated;
  }

  private static io.loamdb.WriteOptions translate(WriteOptions options) {
    return options.sync() ? io.loamdb.WriteOptions.SYNC : io.loamdb.WriteOptions.DEFAULT;
  }

  private record LoamSnapshot(io.loamdb.Snapshot snapshot) implements Snapshot {
    @Override
    public void close() {
      snapshot.close();
    }
  }

  private static final class LoamWriteBatch implements WriteBatch {
    private final io.loamdb.WriteBatch batch = new io.loamdb.WriteBatch();

    @Override
    public WriteBatch put(byte[] key, byte[] value) {
      batch.put(key, value);
      return this;
    }

    @Override
    public WriteBatch delete(byte[] key) {
      batch.delete(key);
      return this;
    }

    @Override
    public void close() {
      batch.clear();
    }
  }
}
