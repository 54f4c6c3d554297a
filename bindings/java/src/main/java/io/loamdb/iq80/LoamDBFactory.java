package io.loamdb.iq80;

import io.loamdb.Loam;
import io.loamdb.LoamException;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.iq80.leveldb.CompressionType;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBComparator;
import org.iq80.leveldb.DBFactory;
import org.iq80.leveldb.Options;

/**
 * Loam behind the API of {@code org.iq80.leveldb}, for programs that had leveldbjni or dain's
 * leveldb: only the factory's name changes.
 *
 * <p>New databases have LevelDB's format, so that LevelDB and those libraries open them again. What
 * that API has no word for is at {@link LoamDB#loam}. Safe for use by several threads.
 */
public final class LoamDBFactory implements DBFactory {
  /** The one factory that is needed. */
  public static final LoamDBFactory factory = new LoamDBFactory();

  /** A factory. */
  public LoamDBFactory() {}

  /**
   * Opens a database; directories above it are made, too. Sizes that Loam does not take are
   * replaced by the nearest that it does; {@code verifyChecksums} and {@code paranoidChecks} are
   * always on.
   *
   * @throws IOException the database cannot be opened; its cause is a {@link LoamException}
   */
  @Override
  public DB open(File path, Options options) throws IOException {
    try {
      if (options.logger() != null) {
        options.logger().log(this + " opens " + path);
      }
      return new LoamDB(Loam.open(path.toPath(), translate(options)), options.comparator());
    } catch (LoamException e) {
      throw new IOException(e.getMessage(), e);
    }
  }

  /** Deletes a database, if there is one. */
  @Override
  public void destroy(File path, Options options) throws IOException {
    try {
      Loam.destroy(path.toPath(), comparatorOf(options));
    } catch (LoamException.DoesNotExist e) {
      return;
    } catch (LoamException e) {
      throw new IOException(e.getMessage(), e);
    }
  }

  /** Saves what can be saved of a damaged database. */
  @Override
  public void repair(File path, Options options) throws IOException {
    try {
      Loam.repair(path.toPath(), comparatorOf(options));
    } catch (LoamException e) {
      throw new IOException(e.getMessage(), e);
    }
  }

  /** The bytes of a text in UTF-8; null stays null. */
  public static byte[] bytes(String text) {
    return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
  }

  /** The text of bytes in UTF-8; null stays null. */
  public static String asString(byte[] bytes) {
    return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
  }

  /** Does nothing: it is there for programs that had leveldbjni. */
  public static void pushMemoryPool(int size) {}

  /** Does nothing: it is there for programs that had leveldbjni. */
  public static void popMemoryPool() {}

  private static io.loamdb.Options comparatorOf(Options options) {
    io.loamdb.Options translated = new io.loamdb.Options();
    if (options.comparator() != null) {
      translated.comparator(new Order(options.comparator()));
    }
    return translated;
  }

  private static io.loamdb.Options translate(Options options) {
    boolean snappy = options.compressionType() == CompressionType.SNAPPY;
    io.loamdb.Options translated = comparatorOf(options)
        .format("leveldb")
        .set("create_dirs", true)
        .createIfMissing(options.createIfMissing())
        .errorIfExists(options.errorIfExists())
        .writeBufferSize(clip(options.writeBufferSize(), 64 << 10, 1 << 30))
        .set("max_open_files", clip(options.maxOpenFiles(), 64, 50000))
        .set("block_size", clip(options.blockSize(), 1 << 10, 4 << 20))
        .set("block_restart_interval", clip(options.blockRestartInterval(), 1, 1 << 16))
        .compression(snappy ? "snappy" : "none");
    if (options.cacheSize() > 0) {
      translated.cacheSize(clip(options.cacheSize(), 0, 1L << 46));
    }
    org.iq80.leveldb.Logger logger = options.logger();
    if (logger != null) {
      translated.logger((level, message) -> logger.log(message));
    }
    return translated;
  }

  private static long clip(long value, long least, long most) {
    return Math.min(Math.max(value, least), most);
  }

  @Override
  public String toString() {
    return "Loam " + Loam.version();
  }

  private record Order(DBComparator of) implements io.loamdb.KeyComparator {
    @Override
    public String name() {
      return of.name();
    }

    @Override
    public int compare(byte[] a, byte[] b) {
      return of.compare(a, b);
    }

    @Override
    public boolean equalIsBytewise() {
      return false;
    }
  }
}
