package io.loamdb.remote;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.zip.CRC32;

/** The protocol of loamd: docs/format-loamd.md. */
final class Wire {
  static final int HEADER = 8;
  static final int CALL_HEADER = 9; // of a body: number, time-out, operation
  static final int MAX_BODY = (8 << 20) + (64 << 10);
  static final int MAX_CHANGE = 8 << 20;

  static final int STATUS = 1;
  static final int GET = 2;
  static final int HAS = 3;
  static final int MULTI_GET = 4;
  static final int SCAN = 5;
  static final int SNAPSHOT = 6;
  static final int RELEASE = 7;
  static final int WRITE = 8;

  static final byte[] LINEARIZABLE = {0};

  private Wire() {}

  /** What is sent, piece by piece. */
  static final class Out extends ByteArrayOutputStream {
    Out one(int b) {
      write(b);
      return this;
    }

    Out fixed(int n) {
      return one(n).one(n >>> 8).one(n >>> 16).one(n >>> 24);
    }

    Out number(long n) {
      for (; (n & ~127L) != 0; n >>>= 7) {
        one((int) (n & 127 | 128));
      }
      return one((int) n);
    }

    Out raw(byte[] b) {
      writeBytes(b);
      return this;
    }

    Out bytes(byte[] b) {
      return number(b.length).raw(b);
    }
  }

  /** Reads one field after the other. Malformed ones are a RemoteException. */
  static final class In {
    private final ByteBuffer rest;

    In(byte[] b) {
      this(ByteBuffer.wrap(b));
    }

    In(ByteBuffer rest) {
      this.rest = rest.order(ByteOrder.LITTLE_ENDIAN);
    }

    boolean isEmpty() {
      return !rest.hasRemaining();
    }

    int one() {
      need(1);
      return rest.get() & 255;
    }

    boolean bool() {
      int b = one();
      if (b > 1) {
        throw malformed();
      }
      return b == 1;
    }

    int fixed() {
      need(4);
      return rest.getInt();
    }

    long number() {
      long n = 0;
      for (int shift = 0; shift < 64; shift += 7) {
        int b = one();
        n |= (long) (b & 127) << shift;
        if (b < 128) {
          return n;
        }
      }
      throw malformed();
    }

    byte[] bytes() {
      long n = number();
      need(n);
      return take((int) n);
    }

    byte[] rest() {
      return take(rest.remaining());
    }

    /** There is no further field. */
    void end() {
      if (!isEmpty()) {
        throw malformed();
      }
    }

    private byte[] take(int n) {
      byte[] b = new byte[n];
      rest.get(b);
      return b;
    }

    private void need(long n) {
      if (n < 0 || n > rest.remaining()) {
        throw malformed();
      }
    }
  }

  /** Of an answer that is damaged, though its frame is not: it counts as a lost connection does. */
  static RemoteException malformed() {
    return RemoteException.local("a malformed answer", RemoteException.UNAVAILABLE, null);
  }

  private static int crc(byte[] b, int from) {
    CRC32 crc = new CRC32();
    crc.update(b, from, b.length - from);
    return (int) crc.getValue();
  }

  /** Puts the length and the checksum before a body. */
  static byte[] frame(byte[] body) {
    return new Out().fixed(body.length).fixed(crc(body, 0)).raw(body).toByteArray();
  }

  /** Reads the body of the next frame. */
  static byte[] read(DataInputStream in) throws IOException {
    int length = Integer.reverseBytes(in.readInt());
    int sum = Integer.reverseBytes(in.readInt());
    if (length < 0 || length > MAX_BODY) {
      throw new IOException("a frame of " + Integer.toUnsignedLong(length) + " bytes");
    }
    byte[] body = in.readNBytes(length);
    if (body.length != length || crc(body, 0) != sum) {
      throw new IOException("a frame with a wrong checksum");
    }
    return body;
  }

  static byte[] text(String s) {
    return s.getBytes(StandardCharsets.UTF_8);
  }

  static byte[] greeting(String cluster, String token) {
    return frame(new Out().raw(text("LOAM")).one(1).one(0).bytes(text(cluster)).bytes(text(token))
        .toByteArray());
  }

  static byte[] call(int number, long millis, int op, byte[] args) {
    return frame(new Out().fixed(number).fixed((int) Math.max(1, Math.min(millis, 1L << 30)))
        .one(op).raw(args).toByteArray());
  }

  /** Appends what the value of a key has to be; null: none. */
  static void condition(Out out, byte[] key, byte[] value) {
    out.bytes(key);
    if (value == null) {
      out.one(0);
    } else if (value.length < 64) {
      out.one(1).bytes(value);
    } else {
      try {
        out.one(2).bytes(MessageDigest.getInstance("SHA-256").digest(value));
      } catch (NoSuchAlgorithmException e) {
        throw new IllegalStateException(e); // every JDK has it
      }
    }
  }
}
