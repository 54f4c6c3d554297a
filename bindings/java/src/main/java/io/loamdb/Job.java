package io.loamdb;

import java.lang.ref.Reference;

/** Long work that the library does on a thread of its own, while the caller waits for it. */
final class Job extends NativeObject {
  /** How long an interrupt waits at most until it is seen, in milliseconds. */
  static final int SLICE = 100;

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

  private void await() {
    boolean interrupted = false;
    try {
      while (!Native.jobWait(this, SLICE)) {
        if (Thread.interrupted()) {
          interrupted = true;
          Native.jobCancel(this);
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
