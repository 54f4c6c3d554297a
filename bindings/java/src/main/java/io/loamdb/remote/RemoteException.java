package io.loamdb.remote;

/**
 * A failure of a node, or of the way to it. Of a change that failed either {@link #isNotApplied} or
 * {@link #isUnknown} holds.
 */
public final class RemoteException extends RuntimeException {
  private static final long serialVersionUID = 1;

  static final int NOT_APPLIED = 1;
  static final int UNKNOWN = 1 << 1;
  static final int UNAVAILABLE = 1 << 2;
  static final int HALTED = 1 << 3;
  static final int TOO_LARGE = 1 << 5;
  static final int CONFLICT = 1 << 6;
  static final int SNAPSHOT_GONE = 1 << 7;
  static final int TOO_OLD = 1 << 8;
  static final int WRONG_TOKEN = 1 << 9;
  static final int REFUSED = 1 << 10;

  private final int flags;
  private final boolean node;

  RemoteException(String message, int flags, boolean node, Throwable cause) {
    super(message, cause);
    this.flags = flags;
    this.node = node;
  }

  static RemoteException local(String message, int flags, Throwable cause) {
    return new RemoteException(message, flags, false, cause);
  }

  private boolean has(int flag) {
    return (flags & flag) != 0;
  }

  /** The change did not happen, and will not: it is safe to try again. */
  public boolean isNotApplied() {
    return has(NOT_APPLIED) && !has(UNKNOWN); // of the last of several tries it says nothing
  }

  /** The change may have happened, or may yet. */
  public boolean isUnknown() {
    return has(UNKNOWN);
  }

  /** No node, or no leader, answered in time. */
  public boolean isUnavailable() {
    return has(UNAVAILABLE);
  }

  /** The node met an error of its disk. */
  public boolean isHalted() {
    return has(HALTED);
  }

  /** A key, change or result is above a limit. */
  public boolean isTooLarge() {
    return has(TOO_LARGE);
  }

  /** Others changed what a transaction read, until the time was over. */
  public boolean isConflict() {
    return has(CONFLICT);
  }

  /** The connection to the node that had the snapshot was lost, or a minute went by unused. */
  public boolean isSnapshotGone() {
    return has(SNAPSHOT_GONE);
  }

  /** The node is of another cluster or version, or wants another token. */
  public boolean isRefused() {
    return has(REFUSED) || has(WRONG_TOKEN);
  }

  /** Whether another node may do what one could not. */
  boolean again() {
    return !node && !isTooLarge()
        || (flags & (UNKNOWN | UNAVAILABLE | HALTED | TOO_OLD)) != 0 && !has(WRONG_TOKEN);
  }

  /** Whether a node answered so. */
  boolean ofNode() {
    return node;
  }

  RemoteException with(int flag, String what) {
    return has(flag) ? this : new RemoteException(what + ": " + getMessage(), flags | flag, node,
        this);
  }
}
