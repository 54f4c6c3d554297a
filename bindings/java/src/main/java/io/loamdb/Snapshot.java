package io.loamdb;

/**
 * A state of a database with all its keyspaces, for {@link ReadOptions#snapshot}. What it sees
 * stays on disk until it is closed. Safe for use by several threads.
 */
public final class Snapshot extends NativeObject {
  private final Keyspace db; // stays reachable

  Snapshot(Keyspace db) {
    super(Kind.SNAPSHOT, Native.snapshotCreate(db));
    this.db = db;
  }

  /** The database or keyspace that made it. */
  public Keyspace source() {
    return db;
  }
}
