import io.loamdb.Loam;
import io.loamdb.Options;
import io.loamdb.WriteBatch;
import io.loamdb.WriteOptions;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/**
 * Writes the batches that it reads, and acknowledges them: see ../program.go.
 *
 * <p>Usage: java Writer DIRECTORY.
 */
final class Writer {
  private Writer() {}

  public static void main(String[] args) throws IOException {
    Options options = new Options().writeBufferSize(64 << 10).cacheSize(1 << 20)
        .set("max_file_size", 64 << 10).set("l0_compaction", 2);
    String format = System.getenv("LOAM_FORMAT");
    if (format != null && !format.isEmpty()) {
      options.format(format);
    }
    DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
    try (Loam db = Loam.open(Path.of(args[0]), options)) {
      byte[] last = db.get("!last".getBytes(StandardCharsets.UTF_8));
      say(last == null ? 0 : Integer.parseInt(new String(last, StandardCharsets.UTF_8)));
      for (;;) {
        byte[] frame = new byte[Integer.reverseBytes(in.readInt())];
        in.readFully(frame);
        ByteBuffer rest = ByteBuffer.wrap(frame).order(ByteOrder.LITTLE_ENDIAN);
        int number = rest.getInt();
        boolean sync = rest.get() == 1;
        db.write(batch(rest), sync ? WriteOptions.SYNC : WriteOptions.DEFAULT);
        say(number);
      }
    } catch (EOFException e) {
      return; // the tests close the pipe
    }
  }

  private static WriteBatch batch(ByteBuffer rest) {
    WriteBatch batch = new WriteBatch();
    while (rest.hasRemaining()) {
      boolean put = rest.get() == 1;
      byte[] key = text(rest);
      if (put) {
        batch.put(key, text(rest));
      } else {
        batch.delete(key);
      }
    }
    return batch;
  }

  private static byte[] text(ByteBuffer rest) {
    byte[] text = new byte[rest.getInt()];
    rest.get(text);
    return text;
  }

  private static void say(int number) {
    System.out.write(ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(number).array(),
        0, 4);
    System.out.flush();
  }
}
