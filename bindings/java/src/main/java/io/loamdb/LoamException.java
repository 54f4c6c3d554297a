package io.loamdb;

/**
 * A failure, of which the nested classes are the kinds. The message is a sentence that says what
 * failed and, where that helps, what to do.
 */
public class LoamException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final int status;
  private final int errno;
  private final String path;

  LoamException(int status, String message, int errno, String path) {
    super(message);
    this.status = status;
    this.errno = errno;
    this.path = path;
  }

  /** The number of the failure in {@code loam.h}. */
  public int status() {
    return status;
  }

  /** The operating system's error number; 0: none. */
  public int errno() {
    return errno;
  }

  /** The file or directory concerned; null: none. */
  public String path() {
    return path;
  }

  static LoamException of(int status, String message, int errno, String path) {
    return switch (status) {
      case -1 -> new InvalidArgument(message, errno, path);
      case -2 -> new InvalidHandle(message, errno, path);
      case -3 -> new Closed(message, errno, path);
      case -4 -> new Corruption(message, errno, path);
      case -5 -> new IO(message, errno, path);
      case -6 -> new ReadOnly(message, errno, path);
      case -7 -> new Locked(message, errno, path);
      case -8 -> new NotADatabase(message, errno, path);
      case -9 -> new Exists(message, errno, path);
      case -10 -> new DoesNotExist(message, errno, path);
      case -11 -> new ComparatorMismatch(message, errno, path);
      case -12 -> new TooLarge(message, errno, path);
      case -13 -> new NoMemory(message, errno, path);
      case -14 -> new Forked(message, errno, path);
      case -15 -> new InUse(message, errno, path);
      case -16 -> new Cancelled(message, errno, path);
      case -17 -> new Internal(message, errno, path);
      case -18 -> new NoSpace(message, errno, path);
      case -19 -> new TooManyFiles(message, errno, path);
      case -20 -> new CallbackFailed(message, errno, path);
      case -21 -> new Abi(message, errno, path);
      case -22 -> new NewerFormat(message, errno, path);
      case -23 -> new NeedsNative(message, errno, path);
      case -24 -> new NoKeyspace(message, errno, path);
      case -25 -> new NoMergeOperator(message, errno, path);
      case -26 -> new MergeFailed(message, errno, path);
      case -27 -> new Conflict(message, errno, path);
      case -28 -> new Deadlock(message, errno, path);
      case -29 -> new LockTimeout(message, errno, path);
      case -30 -> new TransactionDone(message, errno, path);
      case -31 -> new Gap(message, errno, path);
      case -32 -> new Encryption(message, errno, path);
      case 3 -> new WouldBlock(message, errno, path);
      case 6 -> new Busy(message, errno, path);
      default -> new LoamException(status, message, errno, path);
    };
  }

  /** An argument that the library refuses; nothing was done. */
  public static final class InvalidArgument extends LoamException {
    private static final long serialVersionUID = 1;

    InvalidArgument(String message, int errno, String path) {
      super(-1, message, errno, path);
    }

    InvalidArgument(String message) {
      this(message, 0, null);
    }
  }

  /** Not an object of the expected kind. */
  public static final class InvalidHandle extends LoamException {
    private static final long serialVersionUID = 1;

    InvalidHandle(String message, int errno, String path) {
      super(-2, message, errno, path);
    }
  }

  /** The object, or its database, was closed. */
  public static final class Closed extends LoamException {
    private static final long serialVersionUID = 1;

    Closed(String message, int errno, String path) {
      super(-3, message, errno, path);
    }
  }

  /** Damaged bytes on disk; the message says where, {@link #path} the file. */
  public static final class Corruption extends LoamException {
    private static final long serialVersionUID = 1;

    Corruption(String message, int errno, String path) {
      super(-4, message, errno, path);
    }
  }

  /** The operating system refused; the message says what. */
  public static final class IO extends LoamException {
    private static final long serialVersionUID = 1;

    IO(String message, int errno, String path) {
      super(-5, message, errno, path);
    }
  }

  /** The database was opened for reading, or a failed write made it read-only. */
  public static final class ReadOnly extends LoamException {
    private static final long serialVersionUID = 1;

    ReadOnly(String message, int errno, String path) {
      super(-6, message, errno, path);
    }
  }

  /** The directory is open elsewhere. */
  public static final class Locked extends LoamException {
    private static final long serialVersionUID = 1;

    Locked(String message, int errno, String path) {
      super(-7, message, errno, path);
    }
  }

  /** The directory holds something else. */
  public static final class NotADatabase extends LoamException {
    private static final long serialVersionUID = 1;

    NotADatabase(String message, int errno, String path) {
      super(-8, message, errno, path);
    }
  }

  /** There is a database already, or something else in the place. */
  public static final class Exists extends LoamException {
    private static final long serialVersionUID = 1;

    Exists(String message, int errno, String path) {
      super(-9, message, errno, path);
    }
  }

  /** There is no database, or no backup of that number. */
  public static final class DoesNotExist extends LoamException {
    private static final long serialVersionUID = 1;

    DoesNotExist(String message, int errno, String path) {
      super(-10, message, errno, path);
    }
  }

  /** The database was created with another comparator. */
  public static final class ComparatorMismatch extends LoamException {
    private static final long serialVersionUID = 1;

    ComparatorMismatch(String message, int errno, String path) {
      super(-11, message, errno, path);
    }
  }

  /** A key, value, batch or count is above the limit. */
  public static final class TooLarge extends LoamException {
    private static final long serialVersionUID = 1;

    TooLarge(String message, int errno, String path) {
      super(-12, message, errno, path);
    }

    TooLarge(String message) {
      this(message, 0, null);
    }
  }

  /** The system gave no memory. */
  public static final class NoMemory extends LoamException {
    private static final long serialVersionUID = 1;

    NoMemory(String message, int errno, String path) {
      super(-13, message, errno, path);
    }
  }

  /** The process is a child of fork(), in which the library does not work. */
  public static final class Forked extends LoamException {
    private static final long serialVersionUID = 1;

    Forked(String message, int errno, String path) {
      super(-14, message, errno, path);
    }
  }

  /** Another call is using the object, or a callback made a call that it may not make. */
  public static final class InUse extends LoamException {
    private static final long serialVersionUID = 1;

    InUse(String message, int errno, String path) {
      super(-15, message, errno, path);
    }
  }

  /** The work was cancelled. The thread was interrupted, if its flag is set. */
  public static final class Cancelled extends LoamException {
    private static final long serialVersionUID = 1;

    Cancelled(String message, int errno, String path) {
      super(-16, message, errno, path);
    }
  }

  /** A fault in Loam; the message has the details. */
  public static final class Internal extends LoamException {
    private static final long serialVersionUID = 1;

    Internal(String message, int errno, String path) {
      super(-17, message, errno, path);
    }
  }

  /** Disk or quota full; work resumes when there is room. */
  public static final class NoSpace extends LoamException {
    private static final long serialVersionUID = 1;

    NoSpace(String message, int errno, String path) {
      super(-18, message, errno, path);
    }
  }

  /** No file descriptors are left; work resumes when there are. */
  public static final class TooManyFiles extends LoamException {
    private static final long serialVersionUID = 1;

    TooManyFiles(String message, int errno, String path) {
      super(-19, message, errno, path);
    }
  }

  /** A comparator, filter or stream threw; {@link #getCause} is what, if known. */
  public static final class CallbackFailed extends LoamException {
    private static final long serialVersionUID = 1;

    CallbackFailed(String message, int errno, String path) {
      super(-20, message, errno, path);
    }
  }

  /** The engine has another version than the jar's JNI library. */
  public static final class Abi extends LoamException {
    private static final long serialVersionUID = 1;

    Abi(String message, int errno, String path) {
      super(-21, message, errno, path);
    }
  }

  /** A newer version of Loam wrote the directory. */
  public static final class NewerFormat extends LoamException {
    private static final long serialVersionUID = 1;

    NewerFormat(String message, int errno, String path) {
      super(-22, message, errno, path);
    }
  }

  /** LevelDB's format cannot hold it; see {@link Loam#upgrade}. */
  public static final class NeedsNative extends LoamException {
    private static final long serialVersionUID = 1;

    NeedsNative(String message, int errno, String path) {
      super(-23, message, errno, path);
    }
  }

  /** There is no such keyspace, or it was dropped. */
  public static final class NoKeyspace extends LoamException {
    private static final long serialVersionUID = 1;

    NoKeyspace(String message, int errno, String path) {
      super(-24, message, errno, path);
    }
  }

  /** Merges need a merge operator, or the operands are another one's. */
  public static final class NoMergeOperator extends LoamException {
    private static final long serialVersionUID = 1;

    NoMergeOperator(String message, int errno, String path) {
      super(-25, message, errno, path);
    }
  }

  /** The merge operator threw; {@link #getCause} is what, if known. */
  public static final class MergeFailed extends LoamException {
    private static final long serialVersionUID = 1;

    MergeFailed(String message, int errno, String path) {
      super(-26, message, errno, path);
    }
  }

  /** A transaction met a newer write; the message names the key. Begin again. */
  public static final class Conflict extends LoamException {
    private static final long serialVersionUID = 1;

    Conflict(String message, int errno, String path) {
      super(-27, message, errno, path);
    }
  }

  /** Waiting for a lock would never end; the message names both parties. */
  public static final class Deadlock extends LoamException {
    private static final long serialVersionUID = 1;

    Deadlock(String message, int errno, String path) {
      super(-28, message, errno, path);
    }
  }

  /** Another transaction kept a lock for longer than the timeout. */
  public static final class LockTimeout extends LoamException {
    private static final long serialVersionUID = 1;

    LockTimeout(String message, int errno, String path) {
      super(-29, message, errno, path);
    }
  }

  /** The transaction was committed or rolled back. */
  public static final class TransactionDone extends LoamException {
    private static final long serialVersionUID = 1;

    TransactionDone(String message, int errno, String path) {
      super(-30, message, errno, path);
    }
  }

  /** What a feed of changes was to go on with is gone. */
  public static final class Gap extends LoamException {
    private static final long serialVersionUID = 1;

    Gap(String message, int errno, String path) {
      super(-31, message, errno, path);
    }
  }

  /**
   * A key of an encrypted database is missing or wrong, or a file of it is not encrypted; the
   * message names the file and the id of the key.
   */
  public static final class Encryption extends LoamException {
    private static final long serialVersionUID = 1;

    Encryption(String message, int errno, String path) {
      super(-32, message, errno, path);
    }
  }

  /** {@link ReadOptions#memoryOnly}: the answer needs a file. */
  public static final class WouldBlock extends LoamException {
    private static final long serialVersionUID = 1;

    WouldBlock(String message, int errno, String path) {
      super(3, message, errno, path);
    }
  }

  /** {@link WriteOptions#noStall}: the write would have to wait. */
  public static final class Busy extends LoamException {
    private static final long serialVersionUID = 1;

    Busy(String message, int errno, String path) {
      super(6, message, errno, path);
    }
  }
}
