package io.loamdb.remote;

import java.util.Objects;

/** Operations that take effect together. Later ones on the same key win. */
public final class RemoteBatch {
  private final Wire.Out operations = new Wire.Out();
  private int count;

  /** Sets key to value. Both are copied. */
  public RemoteBatch put(byte[] key, byte[] value) {
    Objects.requireNonNull(key);
    Objects.requireNonNull(value);
    operations.one(1).bytes(key).bytes(value);
    count++;
    return this;
  }

  /** Removes key, whether it exists or not. */
  public RemoteBatch delete(byte[] key) {
    Objects.requireNonNull(key);
    operations.one(0).bytes(key);
    count++;
    return this;
  }

  /** How many operations there are. */
  public int count() {
    return count;
  }

  /** The batch as docs/format-batch.md has it. */
  byte[] bytes() {
    return new Wire.Out().fixed(0).fixed(0).fixed(count).raw(operations.toByteArray())
        .toByteArray();
  }
}
