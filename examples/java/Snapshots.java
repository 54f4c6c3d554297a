import io.loamdb.Loam;
import io.loamdb.ReadOptions;
import io.loamdb.Snapshot;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** Reads a state while writes go on. */
public class Snapshots {
  public static void main(String[] args) {
    try (Loam db = Loam.open(Path.of(args[0]))) {
      db.put(bytes("Tampa"), bytes("green"));
      try (Snapshot before = db.snapshot()) {
        db.put(bytes("Tampa"), bytes("blue"));
        System.out.println(text(db.get(bytes("Tampa"), new ReadOptions().snapshot(before))));
        System.out.println(text(db.get(bytes("Tampa"))));
      }
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
// green
// blue
