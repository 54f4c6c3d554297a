package io.loamdb;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A feed of the changes that a database commits, from {@link Loam#changes}: every operation once,
 * in order. Safe for use by several threads; a change goes to one of them.
 */
public final class Changes extends NativeObject {
  private final Loam db; // stays reachable

  /** Of what is below, and of the library's feed, on which one thread waits. */
  private final ReentrantLock busy = new ReentrantLock(true);
  /** A block of changes goes from here to block and ready; where there is no memory it stays. */
  private final long[] kept = new long[2];
  private byte[] block;
  private Deque<Change> ready = new ArrayDeque<>();
  private final Map<Integer, String> names = new HashMap<>();
  private volatile boolean closed; // what is ready is not handed out any more

  Changes(Loam db, long handle) {
    super(Kind.CHANGES, handle);
    this.db = db;
  }

  /** The database. */
  public Loam database() {
    return db;
  }

  /**
   * The next change. It waits for one, at most so long; negative: as long as it takes.
   *
   * @return null: the time is over
   * @throws InterruptedException the thread was interrupted; nothing is lost
   * @throws LoamException.Closed the feed was closed, or the database was and what had been
   *     fetched by then is handed out
   * @throws LoamException.Gap what comes next is gone
   */
  public Change next(Duration wait) throws InterruptedException {
    boolean forever = wait.isNegative();
    long most = forever ? Long.MAX_VALUE : Native.milliseconds(wait);
    long begin = System.nanoTime();
    long left = most;
    for (int looks = 0; ; looks++) {
      int slice = Job.slice(left);
      if (busy.tryLock(slice, TimeUnit.MILLISECONDS)) {
        try {
          Change change = poll(slice);
          if (change != null) {
            return change;
          }
        } finally {
          busy.unlock();
        }
      }
      left = most - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin);
      if (left <= 0) {
        return null;
      }
      if (Thread.interrupted()) {
        throw new InterruptedException();
      }
      Job.nap(looks, TimeUnit.MILLISECONDS.toNanos(left));
    }
  }

  /** Called with the lock. */
  private Change poll(int milliseconds) {
    if (closed || ready.isEmpty()) {
      fetch(milliseconds);
    }
    return ready.poll();
  }

  private void fetch(int milliseconds) {
    if (closed || block == null) {
      block = Native.changesNext(this, milliseconds, kept);
    }
    Deque<Change> changes = new ArrayDeque<>();
    for (int at = 0; block != null && at < block.length; ) {
      int length = Bytes.getInt(block, at);
      at += 4;
      long sequence = Bytes.reader(block).getLong(at);
      changes.add(new Change(sequence, Operation.all(block, at, length, this::name)));
      at += length;
    }
    ready = changes;
    block = null;
  }

  @Override
  public void close() {
    super.close();
    closed = true;
    busy.lock();
    try {
      Native.changesFree(kept);
    } finally {
      busy.unlock();
    }
  }

  /** The sequence number with which another feed goes on behind what was handed out. */
  public long position() {
    busy.lock();
    try {
      if (!closed && ready.isEmpty() && (block != null || kept[0] != 0)) {
        fetch(0);
      }
      return closed || ready.isEmpty() ? Native.changesPosition(this) : ready.peek().sequence();
    } finally {
      busy.unlock();
    }
  }

  private String name(int number) {
    return names.computeIfAbsent(number, n -> Native.string(Native.changesKeyspace(this, n)));
  }
}
