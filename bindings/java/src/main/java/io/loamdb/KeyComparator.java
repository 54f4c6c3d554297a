package io.loamdb;

/**
 * An order of keys, for {@link Options#comparator(KeyComparator)}.
 *
 * <p>It is called by any thread, several at once, and must be a pure function of the bytes. It must
 * not call Loam. When it throws, the call that needed the order fails with {@link
 * LoamException.CallbackFailed}, and the database, which has lost nothing, is read-only until it is
 * opened again.
 */
public interface KeyComparator {
  /** Stored with the database, which opens only with a comparator of the same name. */
  String name();

  /** Negative, 0 or positive for a before b, the same key, a behind b. */
  int compare(byte[] a, byte[] b);

  /**
   * Whether only equal bytes compare as equal: then filters of tables may be used. Default: true.
   */
  default boolean equalIsBytewise() {
    return true;
  }
}
