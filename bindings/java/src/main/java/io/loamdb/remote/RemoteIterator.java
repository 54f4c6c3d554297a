package io.loamdb.remote;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * Walks over the keys of one state in order, both ways. It is used by one thread at a time, and
 * holds one chunk of 4 to 256 KiB, or one entry.
 */
public final class RemoteIterator implements AutoCloseable {
  private static final long FIRST = 4 << 10; // bytes of the first chunk
  private static final long LAST = 256 << 10; // each further one has twice as many, up to these

  private record Entry(byte[] key, byte[] value) {}

  private final RemoteSnapshot of;
  private final byte[] lower;
  private final byte[] upper;
  private long size = FIRST;
  private List<Entry> entries = List.of(); // in ascending order
  private int at; // outside of entries: at none
  private boolean backward; // the chunk was read backward
  private boolean more; // there are more in that direction
  private boolean closed;

  RemoteIterator(RemoteSnapshot of, byte[] lower, byte[] upper) {
    this.of = of;
    this.lower = lower == null ? null : lower.clone();
    this.upper = upper == null ? null : upper.clone();
  }

  /**
   * Moves to the first key. Moves return whether the iterator is at one. One that fails leaves the
   * iterator where it was.
   */
  public boolean first() {
    return fetch(false, lower, upper, FIRST);
  }

  /** Moves to the last key. */
  public boolean last() {
    return fetch(true, lower, upper, FIRST);
  }

  /** Moves to the first key at or after the given one. */
  public boolean seek(byte[] key) {
    return fetch(false, clip(key), upper, FIRST);
  }

  /** Moves to the last key before the given one. */
  public boolean seekBefore(byte[] key) {
    return fetch(true, lower, clip(key), FIRST);
  }

  private byte[] clip(byte[] key) {
    if (lower != null && Arrays.compareUnsigned(key, lower) < 0) {
      return lower;
    }
    return upper != null && Arrays.compareUnsigned(key, upper) > 0 ? upper : key.clone();
  }

  /** Moves to the next key. */
  public boolean next() {
    if (!isValid()) {
      return false;
    }
    if (at + 1 < entries.size() || !backward && !more) {
      at++;
      return isValid();
    }
    byte[] key = key();
    return fetch(false, Arrays.copyOf(key, key.length + 1), upper, larger(false));
  }

  /** Moves to the key before. */
  public boolean prev() {
    if (!isValid()) {
      return false;
    }
    if (at > 0 || backward && !more) {
      at--;
      return isValid();
    }
    return fetch(true, lower, key(), larger(true));
  }

  private long larger(boolean back) {
    return back == backward ? Math.min(2 * size, LAST) : FIRST;
  }

  private boolean fetch(boolean back, byte[] from, byte[] to, long bytes) {
    if (closed) {
      throw new IllegalStateException("the iterator was closed");
    }
    if (from != null && to != null && Arrays.compareUnsigned(from, to) >= 0) {
      entries = List.of();
      return false;
    }
    Wire.Out args = new Wire.Out();
    args.one((back ? 2 : 0) | (from != null ? 4 : 0) | (to != null ? 8 : 0));
    if (from != null) {
      args.bytes(from);
    }
    if (to != null) {
      args.bytes(to);
    }
    Wire.In in = new Wire.In(of.call(Wire.SCAN, args.number(0).number(bytes).toByteArray()));
    boolean further = in.bool();
    in.number(); // no snapshot is kept
    List<Entry> got = new ArrayList<>();
    while (!in.isEmpty()) {
      got.add(new Entry(in.bytes(), in.bytes()));
    }
    if (further && got.isEmpty()) {
      throw Wire.malformed();
    }
    if (back) {
      Collections.reverse(got);
    }
    at = back ? got.size() - 1 : 0;
    entries = got;
    more = further;
    backward = back;
    size = bytes;
    return isValid();
  }

  /** Whether the iterator is at a key. */
  public boolean isValid() {
    return !closed && at >= 0 && at < entries.size();
  }

  /** The key, a new array. */
  public byte[] key() {
    return entries.get(at).key().clone();
  }

  /** Its value, a new array. */
  public byte[] value() {
    return entries.get(at).value().clone();
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      entries = List.of();
      of.release();
    }
  }
}
