package io.loamdb.remote;

import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A fixed state of one node. Reads fail with {@link RemoteException#isSnapshotGone} when the
 * connection was lost, or after a minute without a read. Iterators made from it go on after close.
 */
public final class RemoteSnapshot implements AutoCloseable {
  private final Link link;
  private final long id;
  private final byte[] view;
  private final long millis; // time-out of a call
  private final AtomicInteger users = new AtomicInteger(1); // the snapshot and its iterators
  private final AtomicBoolean closed = new AtomicBoolean();

  RemoteSnapshot(Link link, long id, long millis) {
    this.link = link;
    this.id = id;
    this.millis = millis;
    view = new Wire.Out().one(2).number(id).toByteArray();
  }

  private void open() {
    if (closed.get()) {
      throw new IllegalStateException("the snapshot was closed");
    }
  }

  /** The value of a key; null: none. */
  public byte[] get(byte[] key) {
    open();
    return Remote.found(call(Wire.GET, new Wire.Out().bytes(key).toByteArray()));
  }

  /** Whether a key has a value. */
  public boolean has(byte[] key) {
    open();
    return Remote.said(call(Wire.HAS, new Wire.Out().bytes(key).toByteArray()));
  }

  /** Looks up many keys. A missing key has null. */
  public List<byte[]> getAll(List<byte[]> keys) {
    open();
    return Remote.values(keys.size(), call(Wire.MULTI_GET, Remote.many(new byte[0], keys)));
  }

  /** An iterator, to be closed. A null bound is none; upper is excluded. */
  public RemoteIterator iterator(byte[] lower, byte[] upper) {
    open();
    users.incrementAndGet();
    return new RemoteIterator(this, lower, upper);
  }

  byte[] call(int op, byte[] args) {
    try {
      return link.call(op, new Wire.Out().raw(view).raw(args).toByteArray(), millis);
    } catch (Link.Failure e) {
      // A call that was too large, late or interrupted leaves the connection, and the snapshot.
      throw e.error.ofNode() || !link.isLost() ? e.error
          : e.error.with(RemoteException.SNAPSHOT_GONE, "the snapshot is gone");
    }
  }

  @Override
  public void close() {
    if (!closed.getAndSet(true)) {
      release();
    }
  }

  void release() {
    if (users.decrementAndGet() == 0) {
      link.tell(Wire.RELEASE, new Wire.Out().number(id).toByteArray());
    }
  }
}
