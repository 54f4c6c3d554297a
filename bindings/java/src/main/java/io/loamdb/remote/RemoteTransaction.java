package io.loamdb.remote;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * A transaction of {@link Remote#update}: it reads a snapshot with its own writes on top. It is
 * used by one thread at a time, while the function runs.
 */
public final class RemoteTransaction {
  private final RemoteSnapshot snapshot;
  private final Map<ByteBuffer, Optional<byte[]>> read = new LinkedHashMap<>();
  private final Map<ByteBuffer, Optional<byte[]>> written = new LinkedHashMap<>();

  RemoteTransaction(RemoteSnapshot snapshot) {
    this.snapshot = snapshot;
  }

  /** The value of a key; null: none. */
  public byte[] get(byte[] key) {
    ByteBuffer k = ByteBuffer.wrap(key.clone());
    Optional<byte[]> own = written.get(k);
    if (own != null) {
      return own.map(byte[]::clone).orElse(null);
    }
    byte[] value = snapshot.get(key);
    read.put(k, Optional.ofNullable(value).map(byte[]::clone));
    return value;
  }

  /** Sets key to value. */
  public void put(byte[] key, byte[] value) {
    written.put(ByteBuffer.wrap(key.clone()), Optional.of(value.clone()));
  }

  /** Removes key. */
  public void delete(byte[] key) {
    written.put(ByteBuffer.wrap(Objects.requireNonNull(key).clone()), Optional.empty());
  }

  int reads() {
    return read.size();
  }

  Wire.Out conditions() {
    Wire.Out out = new Wire.Out();
    read.forEach((key, value) -> Wire.condition(out, key.array(), value.orElse(null)));
    return out;
  }

  RemoteBatch batch() {
    RemoteBatch batch = new RemoteBatch();
    written.forEach((key, value) -> value.ifPresentOrElse(v -> batch.put(key.array(), v),
        () -> batch.delete(key.array())));
    return batch;
  }
}
