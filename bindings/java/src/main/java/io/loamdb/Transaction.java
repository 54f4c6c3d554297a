package io.loamdb;

import java.util.List;
import java.util.Objects;

/**
 * Reads the state of its beginning with its own writes on top; its writes take effect together at
 * {@link #commit} or not at all. {@link #close} rolls back what was not committed. After the end,
 * calls fail with {@link LoamException.TransactionDone}.
 *
 * <p>{@link #in} gives the same transaction in another keyspace. Safe for use by several threads. A
 * call that waits for a lock ends when another thread rolls back; an interrupt does not end it.
 */
public final class Transaction extends NativeObject {
  private final Loam db; // stays reachable

  Transaction(Loam db, TransactionOptions options) {
    super(Kind.TRANSACTION,
        Native.txnBegin(db, options.flags(), options.timeout(), Native.text(options.name())));
    this.db = db;
  }

  /** The database. */
  public Loam database() {
    return db;
  }

  /** The transaction's reads and writes in a keyspace of the same database. */
  public View in(Keyspace keyspace) {
    return new View(Objects.requireNonNull(keyspace, "keyspace"));
  }

  /** The value of a key; null: it has none. */
  public byte[] get(byte[] key) {
    return whole().get(key);
  }

  /** See {@link View#getForUpdate}. */
  public byte[] getForUpdate(byte[] key) {
    return whole().getForUpdate(key);
  }

  /** Whether a key has a value. */
  public boolean has(byte[] key) {
    return whole().has(key);
  }

  /** The values of keys, in their order; null for a missing key. */
  public List<byte[]> multiGet(List<byte[]> keys) {
    return whole().multiGet(keys);
  }

  /** Stores a value under a key. */
  public void put(byte[] key, byte[] value) {
    whole().put(key, value);
  }

  /** Removes a key, whether it exists or not. */
  public void delete(byte[] key) {
    whole().delete(key);
  }

  /** Adds an operand to a key, see {@link Keyspace#merge}. */
  public void merge(byte[] key, byte[] operand) {
    whole().merge(key, operand);
  }

  /** See {@link View#deleteRange}. */
  public void deleteRange(byte[] start, byte[] limit) {
    whole().deleteRange(start, limit);
  }

  /** See {@link View#iterator}. */
  public LoamIterator iterator(ReadOptions options) {
    return whole().iterator(options);
  }

  private View whole() {
    return new View(null);
  }

  /** Remembers what has been written until now. */
  public long savepoint() {
    return Native.txnSavepoint(this);
  }

  /** Takes back what was written since a savepoint, which stays; later ones are gone. */
  public void rollbackTo(long savepoint) {
    Native.txnRollbackTo(this, savepoint);
  }

  /** Writes all or, after a failure, nothing. Either ends the transaction. */
  public void commit() {
    commit(WriteOptions.DEFAULT);
  }

  /**
   * Writes all or, after a failure, nothing. Either ends the transaction.
   *
   * @throws LoamException.Conflict another write came before; begin again
   */
  public void commit(WriteOptions options) {
    Native.txnCommit(this, options.flags());
  }

  /** Ends the transaction without a trace. */
  public void rollback() {
    Native.txnRollback(this);
  }

  /** The transaction in one keyspace. */
  public final class View {
    private final Keyspace keyspace; // null: the one that the transaction was begun in

    private View(Keyspace keyspace) {
      this.keyspace = keyspace;
    }

    /** The value of a key; null: it has none. */
    public byte[] get(byte[] key) {
      return Native.txnGet(Transaction.this, keyspace, Objects.requireNonNull(key, "key"), false);
    }

    /**
     * The value of a key that the rest depends on: another write of it is a conflict. With locks it
     * locks the key first.
     */
    public byte[] getForUpdate(byte[] key) {
      return Native.txnGet(Transaction.this, keyspace, Objects.requireNonNull(key, "key"), true);
    }

    /** Whether a key has a value. */
    public boolean has(byte[] key) {
      return Native.txnHas(Transaction.this, keyspace, Objects.requireNonNull(key, "key"));
    }

    /** The values of keys, in their order; null for a missing key. */
    public List<byte[]> multiGet(List<byte[]> keys) {
      byte[][] all = keys.toArray(new byte[0][]); // the list may change meanwhile
      return Bytes.unpack(
          Native.txnMultiGet(Transaction.this, keyspace, Bytes.pack(all), all.length), all.length);
    }

    /** Stores a value under a key. */
    public void put(byte[] key, byte[] value) {
      write(Native.OP_PUT, key, Objects.requireNonNull(value, "value"), 0);
    }

    /** Stores a value that expires so many seconds after the commit. */
    public void put(byte[] key, byte[] value, long seconds) {
      write(Native.OP_PUT_TTL, key, Objects.requireNonNull(value, "value"),
          WriteBatch.checkSeconds(seconds));
    }

    /** Removes a key, whether it exists or not. */
    public void delete(byte[] key) {
      write(Native.OP_DELETE, key, null, 0);
    }

    /** Adds an operand to a key; it counts as a write of it. */
    public void merge(byte[] key, byte[] operand) {
      write(Native.OP_MERGE, key, Objects.requireNonNull(operand, "operand"), 0);
    }

    /** Removes the keys from start up to limit. Takes no locks; see {@link #commit}. */
    public void deleteRange(byte[] start, byte[] limit) {
      write(Native.OP_DELETE_RANGE, start, Objects.requireNonNull(limit, "limit"), 0);
    }

    /** An iterator over what the transaction reads now. It outlives the transaction. */
    public LoamIterator iterator(ReadOptions options) {
      return new LoamIterator(keyspace, Transaction.this, options);
    }

    private void write(int kind, byte[] key, byte[] value, long seconds) {
      Native.txnWrite(Transaction.this, keyspace, kind, Objects.requireNonNull(key, "key"), value,
          seconds);
    }
  }
}
