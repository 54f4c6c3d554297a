package io.loamdb;

/**
 * Decides in compactions what becomes of entries, for {@link
 * Options#compactionFilter(CompactionFilter)}.
 *
 * <p>It is asked about the newest version of a key that no snapshot sees, by any thread. It may
 * read the database, but not write. When it throws, the compaction fails, nothing is lost, and it
 * is tried again after a while, or at once with {@link Loam#retry}.
 */
@FunctionalInterface
public interface CompactionFilter {
  /**
   * What is left of an entry: value itself keeps it, null removes it, and any other array is its
   * value from now on.
   *
   * @param level the level that the entry goes to
   */
  byte[] filter(int level, byte[] key, byte[] value);

  /** For messages. */
  default String name() {
    return getClass().getName();
  }
}
