package io.loamdb;

import java.lang.ref.Reference;
import java.util.concurrent.locks.LockSupport;

/** Long work that the library does on a thread of its own, while the caller waits for it. */
final class Job extends NativeObject {
  /** How long an interrupt waits at most until it is seen, in milliseconds. */
  static final int SLICE = 100;

  /** How long a virtual thread sleeps at most between two looks, in nanoseconds. */
  private static final long NAP = 10_000_000;

  private Job(long handle) {
    super(Kind.JOB, handle);
  }

  /**
   * Waits for a job. When the thread is interrupted the job is cancelled; its flag stays set.
   *
   * @param uses the objects that the job uses, which stay reachable
   */
  static void run(long handle, Object... uses) {
    try (Job job = new Job(handle)) {
      job.await();
    } finally {
      Reference.reachabilityFence(uses);
    }
  }

  /** The same; returns what the job reports, as JSON. */
  static String report(long handle, Object... uses) {
    try (Job job = new Job(handle)) {
      job.await();
      return Native.string(Native.jobReport(job));
    } finally {
      Reference.reachabilityFence(uses);
    }
  }

  /**
   * How many milliseconds, of so many, the present thread waits in the library. A virtual one keeps
   * the thread that carries it there, which all virtual threads need: it does not wait, but naps.
   */
  static int slice(long most) {
    return isVirtual() ? 0 : (int) Math.min(Math.max(most, 0), SLICE);
  }

  /** Has a virtual thread sleep after a look in vain, longer each time; an interrupt ends it. */
  static void nap(int looks, long most) {
    if (isVirtual()) {
      LockSupport.parkNanos(Math.min(most, Math.min(NAP, 50_000L << Math.min(looks, 10))));
    }
  }

  /** As Thread.isVirtual, which JDK 17 does not have. */
  private static boolean isVirtual() {
    ThreadGroup group = Thread.currentThread().getThreadGroup();
    return group != null && group.getName().equals("VirtualThreads");
  }

  private void await() {
    boolean interrupted = false;
    try {
      for (int looks = 0; !Native.jobWait(this, slice(SLICE)); looks++) {
        if (Thread.interrupted()) {
          interrupted = true;
          Native.jobCancel(this);
        }
        nap(looks, NAP);
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
