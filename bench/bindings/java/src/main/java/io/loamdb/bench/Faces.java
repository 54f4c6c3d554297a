package io.loamdb.bench;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/** A working set of 20,000 keys of 16 bytes with values of 100; nanoseconds for each entry. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(2)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
public class Faces {
  private static final int KEYS = 20_000;
  private static final int BATCH = 1000;

  @Param({"loam", "loam-iq80", "rocksdbjni", "leveldbjni"})
  public String engine;

  private final byte[][] keys = new byte[KEYS][];
  private final byte[][] batch = new byte[BATCH][];
  private final byte[] value = new byte[100];
  private Path directory;
  private Store store;
  private int at;

  /** Fills a new database. */
  @Setup(Level.Trial)
  public void open() throws Exception {
    directory = Files.createTempDirectory("loam-bench");
    store = Store.open(engine, directory.resolve("db"));
    Random random = new Random(1);
    random.nextBytes(value);
    for (int i = 0; i < KEYS; i++) {
      keys[i] = String.format("%016d", random.nextInt(1_000_000_000))
          .getBytes(StandardCharsets.US_ASCII);
    }
    for (byte[] key : keys) {
      store.put(key, value);
    }
    System.arraycopy(keys, 0, batch, 0, BATCH);
  }

  /** Removes the database. */
  @TearDown(Level.Trial)
  public void close() throws Exception {
    store.close();
    try (var files = Files.walk(directory)) {
      for (Path file : (Iterable<Path>) files.sorted(Comparator.reverseOrder())::iterator) {
        Files.delete(file);
      }
    } catch (IOException e) {
      System.err.println("left: " + e.getMessage());
    }
  }

  private byte[] nextKey() {
    at = at == KEYS - 1 ? 0 : at + 1;
    return keys[at];
  }

  @Benchmark
  public byte[] get() throws Exception {
    return store.get(nextKey());
  }

  @Benchmark
  public void put() throws Exception {
    store.put(nextKey(), value);
  }

  @Benchmark
  @OperationsPerInvocation(BATCH)
  public void batch() throws Exception {
    store.batch(batch, value);
  }

  @Benchmark
  @OperationsPerInvocation(10_000)
  public long iterate() throws Exception {
    return store.iterate(10_000);
  }
}
