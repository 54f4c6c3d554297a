package io.loamdb;

/**
 * A block cache for several databases to share, given to each by {@link Options#cache}. It may be
 * closed as soon as they are open. Safe for use by several threads.
 */
public class Cache extends NativeObject {
  /** A cache of so many bytes. */
  public Cache(long bytes) {
    this(Native.cacheCreate(Native.count("bytes", bytes)), true);
  }

  Cache(long handle, boolean made) {
    super(Kind.CACHE, handle);
  }
}
