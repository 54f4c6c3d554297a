import io.loamdb.Change;
import io.loamdb.Changes;
import io.loamdb.Entry;
import io.loamdb.Keyspace;
import io.loamdb.Loam;
import io.loamdb.Operation;
import io.loamdb.Options;
import io.loamdb.ReadOptions;
import io.loamdb.TransactionOptions;
import io.loamdb.WriteBatch;
import io.loamdb.WriteOptions;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The sessions of a web server: they expire, all sessions of a user are ended at once by a second
 * index, requests are counted in transactions by several threads, and a feed of changes tells who
 * logged in and out.
 */
public class Sessions implements AutoCloseable {
  private static final long SECONDS = 3600;

  private final Loam db;
  private final Keyspace byUser; // user, zero byte, session

  Sessions(Path directory) {
    // The feed goes on behind a restart: its logs stay.
    db = Loam.open(directory, new Options().set("wal_retention_bytes", "16MiB"));
    byUser = db.keyspace("by user");
  }

  @Override
  public void close() {
    byUser.close();
    db.close();
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static String text(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }

  /** The session and its place in the index come together, on disk, and go together. */
  void login(String session, String user) {
    WriteBatch batch = new WriteBatch()
        .put(bytes(session), bytes(user + " 0"), SECONDS)
        .in(byUser)
        .put(bytes(user + "\0" + session), new byte[0], SECONDS);
    db.write(batch, WriteOptions.SYNC);
  }

  /** Counts a request of a session, which lives on from now. Returns whether there is one. */
  boolean request(String session) {
    return db.transact(TransactionOptions.LOCK, txn -> {
      byte[] value = txn.getForUpdate(bytes(session));
      if (value == null) {
        return false;
      }
      String[] words = text(value).split(" ");
      String next = words[0] + " " + (Integer.parseInt(words[1]) + 1);
      txn.in(db).put(bytes(session), bytes(next), SECONDS);
      txn.in(byUser).put(bytes(words[0] + "\0" + session), new byte[0], SECONDS);
      return true;
    });
  }

  /** Ends all sessions of a user. Returns how many. */
  int logout(String user) {
    return db.transact(TransactionOptions.SERIALIZABLE, txn -> {
      List<byte[]> keys = new ArrayList<>();
      try (var it = txn.in(byUser).iterator(new ReadOptions().prefix(bytes(user + "\0")))) {
        for (boolean more = it.seekToFirst(); more; more = it.next()) {
          keys.add(it.key());
        }
      }
      for (byte[] key : keys) {
        txn.delete(bytes(text(key).split("\0")[1]));
        txn.in(byUser).delete(key);
      }
      return keys.size();
    });
  }

  /** Requests of all sessions. */
  int requests() {
    try (var entries = db.stream(new ReadOptions())) {
      return entries.map(Entry::value).mapToInt(v -> Integer.parseInt(text(v).split(" ")[1])).sum();
    }
  }

  /** Counts logins and logouts from a change on, and returns where to go on. */
  long count(long from, Map<String, Integer> into) throws InterruptedException {
    try (Changes feed = db.changes(from, false)) {
      for (Change change; (change = feed.next(Duration.ZERO)) != null; ) {
        for (Operation operation : change.operations()) {
          boolean session = operation.keyspace().equals("default");
          if (session && operation.kind() == Operation.Kind.DELETE) {
            into.merge("out", 1, Integer::sum);
          } else if (session && text(operation.value()).endsWith(" 0")) {
            into.merge("in", 1, Integer::sum);
          }
        }
      }
      return feed.position();
    }
  }

  public static void main(String[] args) throws InterruptedException {
    Path directory = Path.of(args[0]);
    Map<String, Integer> counted = new TreeMap<>();
    long position;
    try (Sessions sessions = new Sessions(directory)) {
      for (int i = 0; i < 90; i++) {
        sessions.login("s" + i, "user" + i % 30);
      }
      List<Thread> threads = new ArrayList<>();
      for (int t = 0; t < 4; t++) {
        Thread thread = new Thread(() -> {
          for (int i = 0; i < 1000; i++) {
            sessions.request("s" + i % 100);
          }
        });
        thread.start();
        threads.add(thread);
      }
      for (Thread thread : threads) {
        thread.join();
      }
      System.out.println(sessions.requests() + " requests");
      System.out.println("s1 expires: " + (sessions.db.ttl(bytes("s1")).get() != Loam.FOREVER));
      position = sessions.count(0, counted);
      System.out.println(counted);
    }
    try (Sessions sessions = new Sessions(directory)) {
      System.out.println(sessions.logout("user7") + " ended, s7 " + sessions.request("s7"));
      sessions.count(position, counted);
      System.out.println(counted);
    }
  }
}

// Prints:
// 3600 requests
// s1 expires: true
// {in=90}
// 3 ended, s7 false
// {in=90, out=3}
