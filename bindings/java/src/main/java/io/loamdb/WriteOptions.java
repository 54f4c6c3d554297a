package io.loamdb;

/**
 * How a write is done.
 *
 * @param sync return when it is on disk, not only in the kernel: it then survives a power cut
 * @param noStall throw {@link LoamException.Busy} instead of waiting for flushes and compactions
 */
public record WriteOptions(boolean sync, boolean noStall) {
  /** Neither. */
  public static final WriteOptions DEFAULT = new WriteOptions(false, false);
  /** Durable when the call returns. */
  public static final WriteOptions SYNC = new WriteOptions(true, false);

  int flags() {
    return (sync ? Native.SYNC : 0) | (noStall ? Native.NO_STALL : 0);
  }
}
