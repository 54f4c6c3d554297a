import io.loamdb.Change;
import io.loamdb.Changes;
import io.loamdb.Keyspace;
import io.loamdb.Loam;
import io.loamdb.Operation;
import io.loamdb.Options;
import io.loamdb.TransactionOptions;
import io.loamdb.WriteOptions;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;

/** Keyspaces, merges, values that expire, transactions and a feed of changes. */
public class Counters {
  public static void main(String[] args) throws InterruptedException {
    try (Loam db = Loam.open(Path.of(args[0]));
        Keyspace visits = db.keyspace("visits", new Options().mergeOperator("uint64add"))) {
      byte[] page = bytes("/index");
      visits.merge(page, number(1));
      visits.merge(page, number(2));
      System.out.println(ByteBuffer.wrap(visits.get(page)).order(ByteOrder.LITTLE_ENDIAN)
          .getLong());

      db.put(bytes("session"), bytes("alice"), 3600, WriteOptions.DEFAULT);
      System.out.println(db.ttl(bytes("session")).get().toMinutes() >= 59);

      db.transact(TransactionOptions.LOCK, txn -> {
        byte[] user = txn.getForUpdate(bytes("session"));
        txn.put(bytes("last"), user);
        return null;
      });

      try (Changes changes = db.changes(0, false)) {
        for (Change change; (change = changes.next(Duration.ZERO)) != null; ) {
          for (Operation operation : change.operations()) {
            System.out.println(operation.kind() + " " + operation.keyspace() + " "
                + new String(operation.key(), StandardCharsets.UTF_8));
          }
        }
      }
    }
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static byte[] number(long n) {
    return ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(n).array();
  }
}

// Prints:
// 3
// true
// MERGE visits /index
// MERGE visits /index
// PUT default session
// PUT default last
