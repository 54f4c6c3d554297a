package io.loamdb;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Objects;

/** What callbacks.c calls, from any thread. What these methods throw is reported to the library. */
final class Callbacks {
  /** How many throwables of callbacks are remembered. */
  private static final int REMEMBERED = 16;

  /** What a callback threw, and the message that the library got. */
  private record Thrown(Throwable what, String message) {}

  /**
   * The newest first, guarded by itself. The library hands on the message alone, perhaps to another
   * thread: the throwable is found again by it.
   */
  private static final Deque<Thrown> THROWN = new ArrayDeque<>();

  private Callbacks() {}

  static int compare(KeyComparator comparator, byte[] a, byte[] b) {
    return comparator.compare(a, b);
  }

  static byte[] merge(MergeOperator operator, byte[] key, byte[] existing, byte[][] operands) {
    byte[] merged = operator.merge(key, existing, List.of(operands));
    return Objects.requireNonNull(merged, "MergeOperator.merge returned null");
  }

  static byte[] partial(MergeOperator operator, byte[] key, byte[] left, byte[] right) {
    return operator.mergePartial(key, left, right);
  }

  static byte[] filter(CompactionFilter filter, int level, byte[] key, byte[] value) {
    return filter.filter(level, key, value);
  }

  static void log(Logger logger, int level, byte[] message) {
    Logger.Level of = level < 0 ? Logger.Level.DEBUG : level < 4 ? Logger.Level.INFO
        : level < 8 ? Logger.Level.WARNING : Logger.Level.ERROR;
    logger.log(of, Native.string(message));
  }

  static void write(OutputStream out, byte[] data) throws IOException {
    out.write(data);
  }

  /** At most so many bytes; none at the end. */
  static byte[] read(InputStream in, int most) throws IOException {
    byte[] data = new byte[Math.min(most, 1 << 16)];
    int n = in.readNBytes(data, 0, data.length);
    return n == data.length ? data : Arrays.copyOf(data, n);
  }

  /** The message that the library gets, and hands on in that of a failure. */
  static byte[] failed(Throwable thrown) {
    byte[] message = message(thrown).getBytes(StandardCharsets.UTF_8);
    synchronized (THROWN) {
      THROWN.addFirst(new Thrown(thrown, new String(message, StandardCharsets.UTF_8)));
      if (THROWN.size() > REMEMBERED) {
        THROWN.removeLast();
      }
    }
    return message;
  }

  /** Without zero bytes, where a text ends for the library. A throwable may fail to tell. */
  private static String message(Throwable thrown) {
    Class<?> type = thrown.getClass(); // an anonymous one has no simple name
    String simple = type.isAnonymousClass() ? type.getName() : type.getSimpleName();
    try {
      String told = thrown.getMessage();
      return told == null ? simple : simple + ": " + told.replace('\0', '?');
    } catch (RuntimeException | Error e) {
      return simple;
    }
  }

  /**
   * What a callback threw that has led to a failure; null: nothing, or it is not known any more.
   */
  static Throwable causeOf(LoamException e) {
    if (!(e instanceof LoamException.CallbackFailed || e instanceof LoamException.MergeFailed)) {
      return null;
    }
    String text = e.getMessage();
    if (text == null) {
      return null;
    }
    synchronized (THROWN) {
      for (Thrown thrown : THROWN) {
        if (text.contains(thrown.message)) {
          return thrown.what;
        }
      }
    }
    return null;
  }
}
