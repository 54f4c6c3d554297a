package io.loamdb;

/**
 * Memory, background jobs, I/O and files for several databases to share, given to each by {@link
 * Options#cache}. It may be closed as soon as they are open. Safe for use by several threads.
 */
public final class Resources extends Cache {
  /**
   * As memory: a quarter of what the process may have, of the limit of its cgroup or the machine's
   * memory. It follows a limit that changes.
   */
  public static final long AUTO_MEMORY = -1;

  /**
   * Makes resources; 0 in any place: no common limit.
   *
   * @param memory bytes of blocks, memtables, indexes, filters and buffers together; 8 MiB or more,
   *     or {@link #AUTO_MEMORY}
   * @param backgroundJobs flushes and compactions at once
   * @param bytesPerSecond what these read and write while no writer waits for them
   * @param openFiles descriptors of tables
   */
  public Resources(long memory, long backgroundJobs, long bytesPerSecond, long openFiles) {
    super(Native.resourcesCreate(memory == AUTO_MEMORY ? memory : Native.count("memory", memory),
        Native.count("backgroundJobs", backgroundJobs),
        Native.count("bytesPerSecond", bytesPerSecond), Native.count("openFiles", openFiles)),
        true);
  }

  /**
   * Changes a limit at once: memory (at most its first value, or auto),
   * background_jobs, io_bytes_per_second or open_files.
   *
   * @throws LoamException.InvalidArgument an unknown name or a bad value
   */
  public void set(String name, Object value) {
    Native.resourcesSet(this, Native.text(name), Native.text(String.valueOf(value)));
  }

  /** How much is in use, as JSON. */
  public String metrics() {
    return Native.string(Native.resourcesMetrics(this));
  }
}
