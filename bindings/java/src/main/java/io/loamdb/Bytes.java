package io.loamdb;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;

/** A growing array, and the encodings that the library shares with the Java side. */
final class Bytes {
  /** What is left of the longest array. */
  private static final int MOST = Integer.MAX_VALUE - 8;
  private static final int NONE = -1;

  byte[] data;
  int length;

  Bytes(int capacity) {
    data = new byte[capacity];
  }

  void reserve(long more) {
    long need = length + more;
    if (need > MOST) {
      throw new LoamException.TooLarge(need + " bytes in one call are more than an array holds");
    }
    if (need > data.length) {
      data = Arrays.copyOf(data, (int) Math.max(need, Math.min(2L * data.length, MOST)));
    }
  }

  void add(byte[] bytes) {
    reserve(bytes.length);
    System.arraycopy(bytes, 0, data, length, bytes.length);
    length += bytes.length;
  }

  void addByte(int b) {
    reserve(1);
    data[length++] = (byte) b;
  }

  void addInt(int n) {
    reserve(4);
    putInt(data, length, n);
    length += 4;
  }

  /** Seven bits a byte, the lowest first; n is unsigned. */
  void addVarint(int n) {
    reserve(5);
    int left = n;
    while ((left & ~0x7f) != 0) {
      data[length++] = (byte) (left | 0x80);
      left >>>= 7;
    }
    data[length++] = (byte) left;
  }

  void addWithLength(byte[] bytes) {
    reserve(5L + bytes.length);
    addVarint(bytes.length);
    add(bytes);
  }

  static int getInt(byte[] data, int at) {
    return data[at] & 0xff | (data[at + 1] & 0xff) << 8 | (data[at + 2] & 0xff) << 16
        | data[at + 3] << 24;
  }

  static void putInt(byte[] data, int at, int n) {
    data[at] = (byte) n;
    data[at + 1] = (byte) (n >>> 8);
    data[at + 2] = (byte) (n >>> 16);
    data[at + 3] = (byte) (n >>> 24);
  }

  /** Keys, each behind its length. */
  static byte[] pack(byte[][] keys) {
    Bytes packed = new Bytes(64);
    for (byte[] key : keys) {
      packed.reserve(4L + key.length);
      packed.addInt(key.length);
      packed.add(key);
    }
    return packed.data;
  }

  /** Values, each behind its length; null for the length NONE. */
  static List<byte[]> unpack(byte[] packed, int n) {
    List<byte[]> values = new ArrayList<>(n);
    int at = 0;
    for (int i = 0; i < n; i++) {
      int length = getInt(packed, at);
      at += 4;
      values.add(length == NONE ? null : Arrays.copyOfRange(packed, at, at + length));
      at += Math.max(length, 0);
    }
    return values;
  }

  /** What is left in a buffer, as an array of its own; the position stays. */
  static byte[] of(ByteBuffer buffer) {
    byte[] bytes = new byte[buffer.remaining()];
    buffer.get(buffer.position(), bytes);
    return bytes;
  }

  /**
   * How many bytes a direct buffer has from a position on, which another thread may move. A read by
   * Java fails where a buffer is of an arena that was closed, or that is another thread's.
   */
  static int directLength(ByteBuffer buffer, int position) {
    int length = buffer.limit() - position;
    Objects.checkFromIndexSize(position, length, buffer.capacity());
    if (length > 0) {
      buffer.get(position);
    }
    return length;
  }

  static ByteBuffer reader(byte[] data) {
    return ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
  }

  static int readVarint(ByteBuffer in) {
    int n = 0;
    for (int shift = 0; ; shift += 7) {
      byte b = in.get();
      n |= (b & 0x7f) << shift;
      if (b >= 0) {
        return n;
      }
    }
  }

  static byte[] readWithLength(ByteBuffer in) {
    byte[] bytes = new byte[readVarint(in)];
    in.get(bytes);
    return bytes;
  }
}
