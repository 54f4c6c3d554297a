package io.loamdb;

/**
 * A load of puts in any order, which become durable in the database in one step, at {@link
 * #finish}; of puts with the same key the last one counts. {@link #close} gives up what was not
 * finished. Safe for use by several threads.
 */
public final class BulkLoad extends NativeObject {
  private static final int CHUNK = 64 << 10; // bytes that go to the library at once

  private final Keyspace keyspace; // stays reachable
  private final WriteBatch batch = new WriteBatch();
  private volatile boolean ended; // what comes then goes to the library at once, which refuses it

  BulkLoad(Keyspace keyspace, long memory) {
    super(Kind.BULK_LOAD, Native.bulkBegin(keyspace, memory));
    this.keyspace = keyspace;
  }

  /** Stores a value under a key. After a failure the entry is not part of the load. */
  public synchronized void put(byte[] key, byte[] value) {
    int before = batch.size();
    batch.put(key, value);
    if (batch.size() < CHUNK && !ended) {
      return;
    }
    try {
      send();
    } catch (RuntimeException | Error e) {
      batch.dropLast(before);
      throw e;
    }
  }

  /** Makes all entries durable, in one step, or none if it fails; either ends the load. */
  public synchronized void finish() {
    send();
    ended = true;
    Job.run(Native.bulkFinish(this), this, keyspace);
  }

  @Override
  public void close() {
    ended = true;
    super.close();
  }

  private void send() {
    Native.bulkAdd(this, batch.data(), batch.size());
    batch.clear();
  }
}
