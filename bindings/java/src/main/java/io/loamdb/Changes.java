package io.loamdb;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;

/**
 * A feed of the changes that a database commits, from {@link Loam#changes}: every operation once,
 * in order. Safe for use by several threads; a change goes to one of them.
 */
public final class Changes extends NativeObject {
  private final Loam db; // stays reachable

  private final Deque<Change> ready = new ArrayDeque<>();
  private final Map<Integer, String> names = new HashMap<>();

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
   * @throws LoamException.Closed the feed or the database was closed
   * @throws LoamException.Gap what comes next is gone
   */
  public Change next(Duration wait) throws InterruptedException {
    boolean forever = wait.isNegative();
    long left = forever ? 0 : wait.toMillis();
    for (;;) {
      int slice = (int) (forever ? Job.SLICE : Math.min(left, Job.SLICE));
      Change change = poll(slice);
      left -= slice;
      if (change != null || !forever && left <= 0) {
        return change;
      }
      if (Thread.interrupted()) {
        throw new InterruptedException();
      }
    }
  }

  private synchronized Change poll(int milliseconds) {
    if (ready.isEmpty()) {
      byte[] block = Native.changesNext(this, milliseconds);
      for (int at = 0; block != null && at < block.length; ) {
        int length = Bytes.getInt(block, at);
        at += 4;
        long sequence = Bytes.reader(block).getLong(at);
        ready.add(new Change(sequence, Operation.all(block, at, length, this::name)));
        at += length;
      }
    }
    return ready.poll();
  }

  /** The sequence number with which another feed goes on behind what was handed out. */
  public synchronized long position() {
    return ready.isEmpty() ? Native.changesPosition(this) : ready.peek().sequence();
  }

  private String name(int number) {
    return names.computeIfAbsent(number, n -> Native.string(Native.changesKeyspace(this, n)));
  }
}
