package io.loamdb;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.function.Supplier;

/**
 * A cursor over the entries of a range, in the order of their keys, in one state of the database.
 *
 * <p>A new one stands outside of the range: {@link #next} goes to the first entry, {@link #prev} to
 * the last one. Entries are fetched in blocks, which grow while the iterator goes on in one
 * direction. After {@link #close} of the database it may hand out what it has fetched. What it sees
 * stays on disk until it is closed. For use by one thread at a time.
 *
 * <pre>{@code
 * try (LoamIterator it = db.iterator()) {
 *   for (it.seekToFirst(); it.isValid(); it.next()) {
 *     use(it.key(), it.value());
 *   }
 * }
 * }</pre>
 */
public final class LoamIterator extends NativeObject {
  private static final int HEADER = 4; // the length of a block's entries
  private static final int LENGTHS = 8; // of a key and a value

  private final Object source; // stays reachable

  /** Entries that were fetched, of which the library's iterator is at the last one. */
  private byte[] block = new byte[256];
  private int end = HEADER;
  /** Where the next entry of the block begins, and the key and value of the present one. */
  private int next = HEADER;
  private int keyAt;
  private int valueAt;
  private boolean forward; // the order of the block
  private boolean valid;
  private boolean lost; // there was no memory for what the library's iterator has moved over

  LoamIterator(Keyspace db, Transaction txn, ReadOptions options) {
    super(Kind.ITERATOR, Native.iteratorCreate(db, txn, options.snapshot, options.flags(),
        options.lower, options.upper, options.prefix));
    source = db == null ? txn : db;
  }

  /** Whether it is at an entry. */
  public boolean isValid() {
    return valid;
  }

  /** Goes to the first entry. As all moves, it returns whether there is one. */
  public boolean seekToFirst() {
    return seek(Native.FIRST, null);
  }

  /** Goes to the last entry. */
  public boolean seekToLast() {
    return seek(Native.LAST, null);
  }

  /** Goes to the first key at or after the given one. */
  public boolean seek(byte[] key) {
    return seek(Native.SEEK, Objects.requireNonNull(key, "key"));
  }

  /** Goes to the last key before the given one. */
  public boolean seekBefore(byte[] key) {
    return seek(Native.SEEK_BEFORE, Objects.requireNonNull(key, "key"));
  }

  /** Goes to the next entry; from before the range to the first one. */
  public boolean next() {
    return move(true);
  }

  /** Goes to the entry before; from behind the range to the last one. */
  public boolean prev() {
    return move(false);
  }

  /**
   * The key of the present entry, a new array.
   *
   * @throws NoSuchElementException the iterator is not at an entry
   */
  public byte[] key() {
    check();
    return copy(keyAt, valueAt);
  }

  /**
   * The value of the present entry, a new array.
   *
   * @throws NoSuchElementException the iterator is not at an entry
   */
  public byte[] value() {
    check();
    return copy(valueAt, next);
  }

  /** The key as a read-only view, without a copy, until the next move. */
  public ByteBuffer keyView() {
    check();
    return ByteBuffer.wrap(block, keyAt, valueAt - keyAt).slice().asReadOnlyBuffer();
  }

  /** The value as a read-only view, without a copy, until the next move. */
  public ByteBuffer valueView() {
    check();
    return ByteBuffer.wrap(block, valueAt, next - valueAt).slice().asReadOnlyBuffer();
  }

  /** The present entry. */
  public Entry entry() {
    return new Entry(key(), value());
  }

  /** The entries from the next one on, by {@link #next}. */
  public Iterator<Entry> asIterator() {
    return new Iterator<>() {
      private boolean moved;

      @Override
      public boolean hasNext() {
        if (!moved) {
          LoamIterator.this.next();
          moved = true;
        }
        return valid;
      }

      @Override
      public Entry next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        moved = false;
        return entry();
      }
    };
  }

  @Override
  public synchronized void close() {
    super.close();
    leave();
  }

  /** The database or transaction that it reads. */
  Object source() {
    return source;
  }

  private void check() {
    if (!valid) {
      throw new NoSuchElementException("the iterator is not at an entry");
    }
  }

  /** Places that do not fit come from another thread, which moves the iterator meanwhile. */
  private byte[] copy(int from, int to) {
    byte[] entries = block;
    if (from < 0 || from > to || to > entries.length) {
      throw new LoamException.InUse("another thread is using the iterator", 0, null);
    }
    return Arrays.copyOfRange(entries, from, to);
  }

  private boolean seek(int where, byte[] key) {
    byte[] entry = fetched(() -> Native.iteratorSeek(this, where, key, block));
    lost = false;
    return take(entry);
  }

  /**
   * Calls the library. A refused call changes nothing; after another failure it is at no entry, and
   * where there was no memory only a seek goes on. The entries are copied out of memory that the
   * next call of the library gives up: a call of another thread, or close, waits.
   */
  private synchronized byte[] fetched(Supplier<byte[]> call) {
    try {
      return call.get();
    } catch (LoamException.InUse e) {
      throw e;
    } catch (RuntimeException | Error e) {
      lost |= e instanceof Error;
      leave();
      throw e;
    }
  }

  private void leave() {
    valid = false;
    next = end;
  }

  private boolean move(boolean ahead) {
    boolean more = next < end;
    if (valid && more && ahead == forward) {
      return decode();
    }
    if (valid && more && ahead != forward) {
      if (!turn(ahead)) {
        return valid;
      }
    }
    if (lost) {
      throw new LoamException.InvalidArgument("there was no memory for the last entries: seek");
    }
    byte[] entries = fetched(() -> Native.iteratorBlock(this, ahead, 0, 0, block));
    forward = ahead;
    return take(entries);
  }

  /** Leaves a block in its middle. Returns whether the next block is still to be fetched. */
  private boolean turn(boolean ahead) {
    byte[] key = key();
    if (!ahead) {
      seekBefore(key);
      return false;
    }
    return seek(key);
  }

  private boolean take(byte[] entries) {
    if (entries == null) {
      leave();
      return false;
    }
    block = entries;
    next = HEADER;
    end = HEADER + Bytes.getInt(block, 0);
    return decode();
  }

  private boolean decode() {
    int keyLength = Bytes.getInt(block, next);
    int valueLength = Bytes.getInt(block, next + 4);
    keyAt = next + LENGTHS;
    valueAt = keyAt + keyLength;
    next = valueAt + valueLength;
    valid = true;
    return true;
  }
}
