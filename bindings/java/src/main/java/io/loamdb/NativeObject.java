package io.loamdb;

import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * An object of the native library.
 *
 * <p>{@link #close} releases it, once; the garbage collector does so for an object that was
 * forgotten, some time after it became unreachable. The library checks every handle it gets: a call
 * on a closed object throws {@link LoamException.Closed}.
 */
abstract class NativeObject implements AutoCloseable {
  /** As in database.c, in this order. */
  enum Kind {
    DATABASE, SNAPSHOT, ITERATOR, TRANSACTION, BACKUPS, CHANGES, TABLE_WRITER, BULK_LOAD, CACHE,
    OPTIONS, JOB
  }

  private static final Cleaner CLEANER = Cleaner.create();

  /** Read by the native methods, which get the object itself: so it is reachable meanwhile. */
  final long handle;

  private final Release release;
  private final Cleaner.Cleanable cleanable;

  NativeObject(Kind kind, long handle) {
    this.handle = handle;
    release = new Release(kind, handle);
    cleanable = CLEANER.register(this, release);
  }

  /**
   * Releases the object; a second call does nothing. It waits for calls of other threads that use
   * the object.
   *
   * @throws LoamException.InUse when called in a callback that the object is busy with: the object
   *     stays open
   */
  @Override
  public void close() {
    release.close();
    cleanable.clean();
  }

  /** Must not refer to the object. */
  private static final class Release implements Runnable {
    private final Kind kind;
    private final long handle;
    private final AtomicBoolean released = new AtomicBoolean();

    Release(Kind kind, long handle) {
      this.kind = kind;
      this.handle = handle;
    }

    void close() {
      if (released.compareAndSet(false, true)) {
        try {
          Native.close(kind.ordinal(), handle);
        } catch (LoamException.InUse e) {
          released.set(false);
          throw e;
        }
      }
    }

    /** What the cleaner calls. */
    @Override
    public void run() {
      if (released.compareAndSet(false, true)) {
        Native.release(kind.ordinal(), handle);
      }
    }
  }
}
