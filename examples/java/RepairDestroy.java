import io.loamdb.Loam;
import io.loamdb.LoamException;
import io.loamdb.Options;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** Repairs a database that lost a file, and deletes it. */
public class RepairDestroy {
  public static void main(String[] args) throws IOException {
    Path directory = Path.of(args[0]);
    byte[] key = "key".getBytes(StandardCharsets.UTF_8);
    try (Loam db = Loam.open(directory, new Options().format("leveldb"))) {
      db.put(key, key);
      db.flush();
    }
    Files.delete(directory.resolve("CURRENT"));
    Loam.repair(directory, new Options());
    try (Loam db = Loam.open(directory)) {
      System.out.println(db.has(key));
    }
    Loam.destroy(directory, new Options());
    try {
      Loam.open(directory, new Options().createIfMissing(false)).close();
    } catch (LoamException.DoesNotExist e) {
      System.out.println("gone");
    }
  }
}

// Prints:
// true
// gone
