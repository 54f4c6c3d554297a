package io.loamdb;

import java.nio.file.Path;
import java.util.Objects;

/**
 * Writes a table outside of a database, for {@link Keyspace#ingest}. Keys ascend, and come once
 * each; ranges come in any order. {@link #close} removes a table that was not finished. Safe for
 * use by several threads.
 */
public final class TableWriter extends NativeObject {
  /**
   * Creates a table.
   *
   * @param options format and comparator must be those of the keyspace that is to take it
   * @throws LoamException.Exists there is such a file
   */
  public TableWriter(Path file, Options options) {
    super(Kind.TABLE_WRITER, create(file, options));
  }

  private static long create(Path file, Options options) {
    byte[] path = Native.path(file);
    try (Options.Made made = Options.make(options)) {
      return Native.tableCreate(path, made);
    }
  }

  /** Stores a value under a key. */
  public void put(byte[] key, byte[] value) {
    add(Native.OP_PUT, key, Objects.requireNonNull(value, "value"), 0);
  }

  /** Stores a value that expires so many seconds after this call. */
  public void put(byte[] key, byte[] value, long seconds) {
    add(Native.OP_PUT_TTL, key, Objects.requireNonNull(value, "value"),
        WriteBatch.checkSeconds(seconds));
  }

  /** Removes what the database has when the table is ingested. */
  public void delete(byte[] key) {
    add(Native.OP_DELETE, key, null, 0);
  }

  /** Removes what the database has from start up to, not including, stop. */
  public void deleteRange(byte[] start, byte[] stop) {
    add(Native.OP_DELETE_RANGE, start, Objects.requireNonNull(stop, "stop"), 0);
  }

  private void add(int kind, byte[] key, byte[] value, long seconds) {
    Native.tableWrite(this, kind, Objects.requireNonNull(key, "key"), value, seconds);
  }

  /** About how many bytes the file would have if the table were finished now. */
  public long size() {
    return Native.tableSize(this);
  }

  /** Writes the rest and makes the table durable. If it fails the file is removed. */
  public void finish() {
    Native.tableFinish(this);
  }
}
