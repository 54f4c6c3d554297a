import static io.loamdb.iq80.LoamDBFactory.asString;
import static io.loamdb.iq80.LoamDBFactory.bytes;
import static io.loamdb.iq80.LoamDBFactory.factory;

import java.io.File;
import java.io.IOException;
import org.iq80.leveldb.CompressionType;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBIterator;
import org.iq80.leveldb.Options;
import org.iq80.leveldb.ReadOptions;
import org.iq80.leveldb.WriteBatch;
import org.iq80.leveldb.WriteOptions;

/** The tutorial of leveldbjni; only the factory's name is another one. */
public class LevelDb {
  public static void main(String[] args) throws IOException {
    File directory = new File(args[0]);
    Options options = new Options()
        .createIfMissing(true)
        .compressionType(CompressionType.SNAPPY)
        .cacheSize(100 * 1048576)
        .logger(message -> { });
    try (DB db = factory.open(directory, options)) {
      db.put(bytes("Tampa"), bytes("rocks"), new WriteOptions().sync(true));
      System.out.println(asString(db.get(bytes("Tampa"))));
      try (WriteBatch batch = db.createWriteBatch()) {
        batch.delete(bytes("Denver"));
        batch.put(bytes("Tampa"), bytes("green"));
        batch.put(bytes("London"), bytes("red"));
        db.write(batch);
      }
      try (DBIterator iterator = db.iterator()) {
        for (iterator.seekToFirst(); iterator.hasNext(); iterator.next()) {
          String key = asString(iterator.peekNext().getKey());
          String value = asString(iterator.peekNext().getValue());
          System.out.println(key + " = " + value);
        }
      }
      ReadOptions state = new ReadOptions().snapshot(db.getSnapshot());
      db.delete(bytes("Tampa"));
      System.out.println(asString(db.get(bytes("Tampa"), state)));
      state.snapshot().close();
      System.out.println(db.getProperty("leveldb.stats").contains("Compactions"));
    }
    factory.repair(directory, new Options());
    factory.destroy(directory, new Options());
  }
}

// Prints:
// rocks
// London = red
// Tampa = green
// green
// true
