package io.loamdb;

import java.time.Duration;

/**
 * How a transaction works.
 *
 * @param serializable the commit also fails if a key or range that was read has been written
 * @param lock writes and {@link Transaction#getForUpdate} lock their keys, and wait for those that
 *     others have
 * @param readOnly writes are refused
 * @param lockTimeout how long to wait for a lock; null: one second, negative: without end
 * @param name in messages about locks; null: a number
 */
public record TransactionOptions(
    boolean serializable, boolean lock, boolean readOnly, Duration lockTimeout, String name) {
  /** Optimistic: what was written must not have been written by others at the commit. */
  public static final TransactionOptions DEFAULT =
      new TransactionOptions(false, false, false, null, null);
  /** With locks. */
  public static final TransactionOptions LOCK =
      new TransactionOptions(false, true, false, null, null);
  /** What was read must not have been written by others at the commit, either. */
  public static final TransactionOptions SERIALIZABLE =
      new TransactionOptions(true, false, false, null, null);

  int flags() {
    return (serializable ? 1 : 0) | (lock ? 2 : 0) | (readOnly ? 4 : 0);
  }

  /** In milliseconds, as the library takes it: at least one, as 0 is its default. */
  long timeout() {
    if (lockTimeout == null) {
      return 0;
    }
    return lockTimeout.isNegative() ? -1 : Math.max(1, Native.milliseconds(lockTimeout));
  }
}
