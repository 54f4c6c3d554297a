package io.loamdb;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;

/**
 * An operation of a batch or of a change.
 *
 * @param kind what is done
 * @param keyspaceNumber the number of its keyspace; 0: "default", or the one that is written to
 * @param keyspace its name; null: it was dropped, or the operation is of a batch
 * @param key the key, of a range delete the first one
 * @param value the value, operand or limit; null for a delete
 * @param expires when the value expires, in seconds since 1970, and in a batch after how many; 0:
 *     never
 */
public record Operation(
    Kind kind, int keyspaceNumber, String keyspace, byte[] key, byte[] value, long expires) {
  /** Kinds of operations. */
  public enum Kind { DELETE, PUT, MERGE, DELETE_RANGE }

  private static final int DEADLINE = 5; // bytes behind a value that expires

  /** Those of a batch that lies at a place in an array. */
  static List<Operation> all(byte[] data, int at, int length, IntFunction<String> names) {
    ByteBuffer in = Bytes.reader(data).position(at).limit(at + length);
    in.getLong();
    int count = in.getInt();
    List<Operation> operations = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      operations.add(read(in, names));
    }
    return operations;
  }

  private static Operation read(ByteBuffer in, IntFunction<String> names) {
    int kind = in.get() & 0xff;
    int number = (kind & WriteBatch.NAMED) == 0 ? 0 : Bytes.readVarint(in);
    String name = names.apply(number);
    byte[] key = Bytes.readWithLength(in);
    return switch (kind & ~WriteBatch.NAMED) {
      case Native.OP_DELETE -> new Operation(Kind.DELETE, number, name, key, null, 0);
      case Native.OP_PUT ->
          new Operation(Kind.PUT, number, name, key, Bytes.readWithLength(in), 0);
      case Native.OP_MERGE ->
          new Operation(Kind.MERGE, number, name, key, Bytes.readWithLength(in), 0);
      case Native.OP_DELETE_RANGE ->
          new Operation(Kind.DELETE_RANGE, number, name, key, Bytes.readWithLength(in), 0);
      case Native.OP_PUT_TTL -> expiring(in, number, name, key);
      default -> throw new IllegalStateException("an operation of the unknown kind " + kind);
    };
  }

  private static Operation expiring(ByteBuffer in, int number, String name, byte[] key) {
    byte[] value = new byte[Bytes.readVarint(in) - DEADLINE];
    in.get(value);
    long expires = Integer.toUnsignedLong(in.getInt()) | (in.get() & 0x7fL) << 32;
    return new Operation(Kind.PUT, number, name, key, value, expires);
  }
}
