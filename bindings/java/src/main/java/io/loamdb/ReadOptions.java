package io.loamdb;

/**
 * How a read is done, and for iterators what range. Keys that are given are not copied: leave them
 * as they are. For use by one thread at a time while it is changed, by several afterwards.
 */
public final class ReadOptions {
  static final ReadOptions DEFAULT = new ReadOptions();

  private int flags;
  Snapshot snapshot;
  byte[] lower;
  byte[] upper;
  byte[] prefix;

  /** The state to read. Default, and null: the present one. */
  public ReadOptions snapshot(Snapshot state) {
    snapshot = state;
    return this;
  }

  /** Whether blocks that are read go into the block cache. Default: true. */
  public ReadOptions fillCache(boolean fill) {
    return flag(Native.NO_FILL, !fill);
  }

  /** Throws {@link LoamException.WouldBlock} where a file must be read; not for iterators. */
  public ReadOptions memoryOnly(boolean only) {
    return flag(Native.MEMORY_ONLY, only);
  }

  /** Leaves the values of iterators empty, which costs less. Default: false. */
  public ReadOptions keysOnly(boolean only) {
    return flag(Native.KEYS_ONLY, only);
  }

  /** The first key that an iterator returns. Default, and null: no bound. */
  public ReadOptions lowerBound(byte[] key) {
    lower = key;
    return this;
  }

  /** The first key that an iterator returns no more. Default, and null: no bound. */
  public ReadOptions upperBound(byte[] key) {
    upper = key;
    return this;
  }

  /** An iterator returns only keys that begin so. Default, and null: all. */
  public ReadOptions prefix(byte[] beginning) {
    prefix = beginning;
    return this;
  }

  private ReadOptions flag(int bit, boolean on) {
    flags = on ? flags | bit : flags & ~bit;
    return this;
  }

  int flags() {
    return flags;
  }
}
