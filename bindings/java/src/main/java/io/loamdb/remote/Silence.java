package io.loamdb.remote;

import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Tells a connection whose other end is gone without a word, which no error says, from one whose
 * other end takes its time. A call that had no answer for half of its time calls {@link #ask}, and
 * one whose time is over calls {@link #isLost}. A call with a short time-out alone is no sign:
 * calls that are over count together, up to the next answer. Times are those of System.nanoTime.
 */
final class Silence {
  /**
   * How many bytes of an answer that is not whole end a silence. Fewer may be answers that a frame
   * with a damaged length swallows.
   */
  static final int LONG_PART = 16 << 10;

  private final long patience;
  private final AtomicLong heard = new AtomicLong(); // answers, and parts of long ones

  // Guarded by this.
  private long at = -1; // heard when the first call was sent that nothing followed
  private long since; // when that was
  private boolean wasAsked; // ask returned true since
  private long asked; // when that was

  /** A connection that is silent for that many nanoseconds is lost. */
  Silence(long patience) {
    this.patience = patience;
  }

  /** An answer came. */
  void end() {
    heard.incrementAndGet();
  }

  /** A stream with the bytes of another one, from which answers are read. */
  InputStream of(InputStream in) {
    return new FilterInputStream(in) {
      private int part; // bytes that ended no silence

      @Override
      public int read() throws IOException {
        int b = super.read();
        noted(b < 0 ? 0 : 1);
        return b;
      }

      @Override
      public int read(byte[] b, int off, int len) throws IOException {
        int n = super.read(b, off, len);
        noted(n);
        return n;
      }

      private void noted(int n) {
        part += Math.max(n, 0);
        if (part >= LONG_PART) {
          part = 0;
          end();
        }
      }
    };
  }

  /** Notes that a call is sent now, and returns the mark of it. */
  synchronized long sent(long now) {
    long mark = heard.get();
    if (mark != at) {
      at = mark;
      since = now;
      wasAsked = false;
    }
    return mark;
  }

  /** Whether the other end is to be asked something that it answers at once. */
  synchronized boolean ask(long mark, long now) {
    if (mark != heard.get() || wasAsked || now - since < patience / 2) {
      return false;
    }
    wasAsked = true;
    asked = now;
    return true;
  }

  /**
   * Whether the connection is lost, now that the time of a call is over. A process that stood still
   * since it asked has not heard what may be there to read.
   */
  synchronized boolean isLost(long mark, long now) {
    return mark == heard.get() && wasAsked && now - since >= patience
        && now - asked >= patience / 4;
  }
}
