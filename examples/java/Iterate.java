import io.loamdb.Loam;
import io.loamdb.LoamIterator;
import io.loamdb.ReadOptions;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** Reads ranges, forwards, backwards and as a stream. */
public class Iterate {
  public static void main(String[] args) {
    try (Loam db = Loam.open(Path.of(args[0]))) {
      for (String city : new String[] {"Tampa", "London", "Lisbon", "New York"}) {
        db.put(bytes(city), bytes("" + city.length()));
      }
      try (LoamIterator it = db.iterator()) {
        for (it.seekToFirst(); it.isValid(); it.next()) {
          System.out.println(text(it.key()) + " = " + text(it.value()));
        }
        it.seekToLast();
        System.out.println("last: " + text(it.key()));
        it.seek(bytes("M"));
        System.out.println("from M: " + text(it.key()));
      }
      try (var cities = db.stream(new ReadOptions().prefix(bytes("L")).keysOnly(true))) {
        System.out.println(cities.map(entry -> text(entry.key())).toList());
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
// Lisbon = 6
// London = 6
// New York = 8
// Tampa = 5
// last: Tampa
// from M: New York
// [Lisbon, London]
