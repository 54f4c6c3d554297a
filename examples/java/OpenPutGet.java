import io.loamdb.Loam;
import io.loamdb.Options;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** Opens a database, stores, reads and deletes. */
public class OpenPutGet {
  public static void main(String[] args) {
    Path directory = Path.of(args[0]);
    try (Loam db = Loam.open(directory, new Options().createIfMissing(true))) {
      db.put(bytes("Tampa"), bytes("rocks"));
      System.out.println(text(db.get(bytes("Tampa"))));
      db.delete(bytes("Tampa"));
      System.out.println(db.get(bytes("Tampa")));
    }
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static String text(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }
}

// Prints:
// rocks
// null
