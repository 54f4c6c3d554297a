package io.loamdb;

import java.util.List;
import java.util.Objects;

/**
 * Writes that take effect together or not at all, by {@link Keyspace#write}. It lies in Java's
 * memory, and can be written any number of times. For use by one thread at a time.
 */
public final class WriteBatch {
  private static final int HEADER = 12; // sequence number and count
  /** In the kind of an operation: the number of its keyspace follows. */
  static final int NAMED = 0x80;
  /** The most seconds to live, 292 years. */
  static final long LONGEST = 9223372036L;

  private final Bytes bytes = new Bytes(256);
  private int count;
  private Keyspace chosen;
  private int number;
  /** Of the keyspaces that were chosen: their numbers mean others in another database. */
  private Keyspace database;

  /** An empty batch. */
  public WriteBatch() {
    bytes.length = HEADER;
  }

  /** Stores a value under a key. */
  public WriteBatch put(byte[] key, byte[] value) {
    return add(Native.OP_PUT, key, value);
  }

  /** Stores a value that expires so many seconds after the batch was written. */
  public WriteBatch put(byte[] key, byte[] value, long seconds) {
    Bytes withTime = new Bytes(value.length + 5);
    withTime.add(value);
    withTime.addInt((int) checkSeconds(seconds));
    withTime.addByte((int) (seconds >>> 32) | 0x80);
    return add(Native.OP_PUT_TTL, key, withTime.data);
  }

  /** Removes a key, whether it exists or not. */
  public WriteBatch delete(byte[] key) {
    return add(Native.OP_DELETE, key, null);
  }

  /** Removes all keys from start up to, not including, limit. Native format. */
  public WriteBatch deleteRange(byte[] start, byte[] limit) {
    return add(Native.OP_DELETE_RANGE, start, Objects.requireNonNull(limit, "limit"));
  }

  /** Adds an operand to a key, see {@link Keyspace#merge}. */
  public WriteBatch merge(byte[] key, byte[] operand) {
    return add(Native.OP_MERGE, key, operand);
  }

  /**
   * Chooses the keyspace of the operations that follow; null: the one that the batch is written to.
   *
   * @throws LoamException.InvalidArgument the batch names a keyspace of another database
   */
  public WriteBatch in(Keyspace keyspace) {
    if (keyspace != null) {
      checkDatabase(keyspace);
      number = keyspace.number();
      database = keyspace.database();
    }
    chosen = keyspace;
    return this;
  }

  /** Fails when keyspaces of another database are named. */
  void checkDatabase(Keyspace keyspace) {
    if (database != null && database != keyspace.database()) {
      throw new LoamException.InvalidArgument("the batch names a keyspace of another database");
    }
  }

  /** The number of operations. */
  public int count() {
    return count;
  }

  /** Bytes of the batch as it goes into the log. */
  public int size() {
    return bytes.length;
  }

  /** Removes all operations; the keyspace that was chosen is chosen no more. */
  public void clear() {
    bytes.length = HEADER;
    count = 0;
    database = null;
    in(null);
  }

  /** Removes the last operation, before which the batch had so many bytes. */
  void dropLast(int size) {
    bytes.length = size;
    count--;
  }

  /** The operations, in their order. Those of a chosen keyspace have its number alone. */
  public List<Operation> operations() {
    return Operation.all(data(), 0, bytes.length, n -> null);
  }

  private WriteBatch add(int kind, byte[] key, byte[] value) {
    Objects.requireNonNull(key, "key");
    if (kind != Native.OP_DELETE) {
      Objects.requireNonNull(value, "value");
    }
    bytes.reserve(16L + key.length + (value == null ? 0 : value.length));
    bytes.addByte(chosen == null ? kind : kind | NAMED);
    if (chosen != null) {
      bytes.addVarint(number);
    }
    bytes.addWithLength(key);
    if (value != null) {
      bytes.addWithLength(value);
    }
    count++;
    return this;
  }

  /** The whole batch in its first {@link #size} bytes, valid until the next change. */
  byte[] data() {
    Bytes.putInt(bytes.data, 8, count);
    return bytes.data;
  }

  static long checkSeconds(long seconds) {
    if (seconds < 1 || seconds > LONGEST) {
      throw new LoamException.InvalidArgument(
          "a time to live of " + seconds + " s: it must be from 1 to " + LONGEST);
    }
    return seconds;
  }
}
