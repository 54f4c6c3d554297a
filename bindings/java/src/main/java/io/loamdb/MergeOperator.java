package io.loamdb;

import java.util.List;

/**
 * Makes values of the operands of {@link Keyspace#merge}, for {@link
 * Options#mergeOperator(MergeOperator)}.
 *
 * <p>It is called by any thread, several at once, in reads and in the background, and must be a
 * pure function of the bytes. It may read the database, but not write. When it throws, reads of the
 * key fail with {@link LoamException.MergeFailed}; nothing is lost.
 */
public interface MergeOperator {
  /** Stored with the database, which opens only with the same one while it has operands. */
  String name();

  /**
   * The value of a key: the existing one, null if there is none, with the operands applied, oldest
   * first. Never null.
   */
  byte[] merge(byte[] key, byte[] existing, List<byte[]> operands);

  /**
   * One operand that does what left does and right after it; null: they stay two. Must be
   * associative. Default: null.
   */
  default byte[] mergePartial(byte[] key, byte[] left, byte[] right) {
    return null;
  }
}
