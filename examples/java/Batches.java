import io.loamdb.Loam;
import io.loamdb.WriteBatch;
import io.loamdb.WriteOptions;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** Several writes take effect together, and are on disk when the call returns. */
public class Batches {
  public static void main(String[] args) {
    try (Loam db = Loam.open(Path.of(args[0]))) {
      db.put(bytes("Denver"), bytes("old"));
      WriteBatch batch = new WriteBatch()
          .delete(bytes("Denver"))
          .put(bytes("Tampa"), bytes("green"))
          .put(bytes("London"), bytes("red"));
      db.write(batch, WriteOptions.SYNC);
      System.out.println(batch.count() + " operations");
      System.out.println(db.has(bytes("Denver")) + " " + db.has(bytes("London")));
    }
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}

// Prints:
// 3 operations
// false true
