package io.loamdb.remote;

import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Tells a connection whose other end is gone without a word, which no error says, from one whose
 * other end takes its time. A call that had no answer for half of its time calls {@link #ask}, and
 * one whose time is over calls {@link #isLost}. A call with a short time-out alone is no sign:
 * calls that are over count up to the first bytes that come. Times are those of System.nanoTime.
 */
final class Silence {
  private final long patience;
  private final AtomicLong heard = new AtomicLong(); // reads that returned bytes

  // Guarded by this.
  private long at = -1; // heard when the first call was sent that no bytes followed
  private long since; // when that was
  private boolean wasAsked; // ask returned true since
  private long asked; // when that was

  /** A connection that is silent for that many nanoseconds is lost. */
  Silence(long patience) {
    this.patience = patience;
  }

  /** A stream with the bytes of another one, which end the silence. */
  InputStream of(InputStream in) {
    return new FilterInputStream(in) {
      @Override
      public int read() throws IOException {
        return noted(super.read());
      }

      @Override
      public int read(byte[] b, int off, int len) throws IOException {
        return noted(super.read(b, off, len));
      }

      private int noted(int n) {
        if (n >= 0) {
          heard.incrementAndGet();
        }
        return n;
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
