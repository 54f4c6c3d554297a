import io.loamdb.Cache;
import io.loamdb.Loam;
import io.loamdb.Options;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** Compression, the cache and other options; some change while the database is open. */
public class Tuning {
  public static void main(String[] args) {
    Path directory = Path.of(args[0]);
    try (Cache shared = new Cache(32 << 20)) {
      Options options = new Options()
          .compression("none,snappy,zstd")
          .cache(shared)
          .writeBufferSize(16 << 20)
          .bloomBits(12)
          .set("block_size", "8KiB");
      try (Loam db = Loam.open(directory, options)) {
        db.put("key".getBytes(StandardCharsets.UTF_8), new byte[10_000]);
        db.compactRange();
        System.out.println(db.option("block_size"));
        db.setOption("compression", "zstd");
        System.out.println(db.option("compression"));
      }
    }
  }
}

// Prints:
// 8192
// zstd
