package io.loamdb.bench;

import com.alipay.sofa.jraft.conf.ConfigurationManager;
import com.alipay.sofa.jraft.entity.EnumOutter.EntryType;
import com.alipay.sofa.jraft.entity.LogEntry;
import com.alipay.sofa.jraft.entity.LogId;
import com.alipay.sofa.jraft.entity.codec.v2.LogEntryV2CodecFactory;
import com.alipay.sofa.jraft.option.LogStorageOptions;
import com.alipay.sofa.jraft.option.RaftOptions;
import com.alipay.sofa.jraft.storage.LogStorage;
import com.alipay.sofa.jraft.storage.impl.RocksDBLogStorage;
import com.alipay.sofa.jraft.storage.log.RocksDBSegmentLogStorage;
import com.alipay.sofa.jraft.util.StorageOptionsFactory;
import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.StringJoiner;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;

/**
 * The phases of kvbench-raftlog on the log storages of SOFAJRaft. The program prints one result as
 * JSON, with the names of kvbench-raftlog's; its arguments are the mode, the engine, the bytes of
 * an entry, the number of entries, the entries of a batch and the directory.
 */
public final class Jraft {
  private final StringJoiner json = new StringJoiner(",", "{", "}");
  private final byte[] pool = new byte[16 << 20];
  private final int size;
  private final long num;
  private final int batch;
  private final Path dir;
  private final LogStorage log;
  private long last;

  private Jraft(String engine, int size, long num, int batch, Path dir) throws IOException {
    this.size = size;
    this.num = num;
    this.batch = batch;
    this.dir = dir;
    new Random(1).nextBytes(pool);
    Files.createDirectories(dir);
    RaftOptions options = new RaftOptions();
    options.setSync(true);
    log = engine.equals("jraft-segments")
        ? new RocksDBSegmentLogStorage(dir.toString(), options)
        : new RocksDBLogStorage(dir.toString(), options);
    LogStorageOptions storage = new LogStorageOptions();
    storage.setGroupId("bench");
    storage.setConfigurationManager(new ConfigurationManager());
    storage.setLogEntryCodecFactory(LogEntryV2CodecFactory.getInstance());
    if (!log.init(storage)) {
      throw new IOException(engine + " does not open");
    }
    json.add("\"Engine\":\"" + engine + "\",\"Size\":" + size + ",\"Num\":" + num
        + ",\"Batch\":" + batch);
  }

  /** Runs a mode. */
  public static void main(String[] args) throws Exception {
    long start = System.nanoTime();
    StorageOptionsFactory.releaseAllOptions();
    Jraft b = new Jraft(args[1], Integer.parseInt(args[2]), Long.parseLong(args[3]),
        Integer.parseInt(args[4]), Path.of(args[5]));
    switch (args[0]) {
      case "append" -> {
        b.append();
        b.log.shutdown();
      }
      case "reopen" -> b.reopened(start);
      default -> {
        b.append();
        b.readAll();
        b.readRandom();
        b.catchUp();
        b.overwrite();
        b.truncate();
      }
    }
    b.json.add("\"Memory\":" + (counter("/proc/self/status", "VmHWM:") << 10));
    System.out.println(b.json);
    System.out.flush();
    if (args[0].equals("phases")) {
      new ProcessBuilder("kill", "-9", Long.toString(ProcessHandle.current().pid())).start();
      Thread.sleep(Long.MAX_VALUE);
    }
    Runtime.getRuntime().halt(0);
  }

  private List<LogEntry> make(long first) {
    List<LogEntry> entries = new ArrayList<>(batch);
    for (long i = first; i < first + batch; i++) {
      LogEntry e = new LogEntry(EntryType.ENTRY_TYPE_DATA);
      e.setId(new LogId(i, 1));
      int at = (int) (i * 7919 % (pool.length - size));
      ByteBuffer data = ByteBuffer.wrap(Arrays.copyOfRange(pool, at, at + size));
      data.putLong(0, i);
      e.setData(data);
      entries.add(e);
    }
    return entries;
  }

  private long store(long first) throws IOException {
    List<LogEntry> entries = make(first);
    long start = System.nanoTime();
    if (log.appendEntries(entries) != batch) {
      throw new IOException("a batch at " + first + " is not stored");
    }
    last = first + batch - 1;
    return System.nanoTime() - start;
  }

  private void append() throws IOException {
    long written = written();
    long cpu = cpu();
    long[] each = new long[(int) (num / batch)];
    for (int i = 0; i < each.length; i++) {
      each[i] = store(1 + (long) i * batch);
    }
    rate("Append", num * size, Arrays.stream(each).sum());
    latency("AppendLatency", each);
    json.add("\"Written\":" + (double) (written() - written) / (num * size));
    json.add("\"CPU\":" + (double) (cpu() - cpu) / (num * size));
    json.add("\"SpaceFull\":" + space());
  }

  private void read(long index) throws IOException {
    LogEntry e = log.getEntry(index);
    if (e == null || e.getData().remaining() != size || e.getData().getLong(0) != index) {
      throw new IOException("entry " + index + " is " + e);
    }
  }

  private void readAll() throws IOException {
    long start = System.nanoTime();
    for (long i = 1; i <= num; i++) {
      read(i);
    }
    rate("ReadAll", num * size, System.nanoTime() - start);
  }

  private void readRandom() throws IOException {
    Random r = new Random(1);
    long n = Math.min(num, 20000);
    long start = System.nanoTime();
    for (long i = 0; i < n; i++) {
      read(1 + (long) (r.nextDouble() * num));
    }
    rate("ReadRandom", n * size, System.nanoTime() - start);
  }

  private void catchUp() throws Exception {
    AtomicBoolean end = new AtomicBoolean();
    Thread writer = new Thread(() -> {
      try {
        while (!end.get()) {
          store(last + 1);
        }
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    });
    writer.start();
    long start = System.nanoTime();
    for (long i = 1; i <= num / 2; i++) {
      read(i);
    }
    rate("CatchUp", num / 2 * size, System.nanoTime() - start);
    end.set(true);
    writer.join();
  }

  private void overwrite() throws IOException {
    long[] each = new long[50];
    for (int i = 0; i < each.length; i++) {
      long first = last - batch + 1;
      long start = System.nanoTime();
      if (!log.truncateSuffix(first - 1)) {
        throw new IOException("the suffix stays");
      }
      each[i] = System.nanoTime() - start + store(first);
    }
    latency("OverwriteLatency", each);
  }

  private void truncate() throws IOException {
    long step = Math.max((64 << 20) / size, batch);
    List<Long> each = new ArrayList<>();
    for (long first = 1; first + step < last - num / 10; first += step) {
      long start = System.nanoTime();
      if (!log.truncatePrefix(first + step)) {
        throw new IOException("the prefix stays");
      }
      each.add(System.nanoTime() - start);
    }
    latency("TruncateLatency", each.stream().mapToLong(Long::longValue).toArray());
    long more = Math.min(80 << 20, num * size);
    for (long i = 0; i * size * batch < more; i++) {
      store(last + 1);
    }
    json.add("\"SpaceCut\":" + space());
    json.add("\"WrittenAll\":" + (double) written() / (last * size));
    json.add("\"Entries\":" + last);
  }

  private void reopened(long start) throws IOException {
    long first = log.getFirstLogIndex();
    long end = log.getLastLogIndex();
    json.add("\"Reopen\":" + (System.nanoTime() - start));
    json.add("\"Entries\":" + end);
    read(first);
    read(end);
  }

  private void rate(String name, long bytes, long nanos) {
    json.add("\"" + name + "\":" + bytes * 1e3 / nanos);
  }

  private void latency(String name, long[] each) {
    Arrays.sort(each);
    int n = each.length;
    if (n > 0) {
      json.add("\"" + name + "\":{\"P50\":" + each[n / 2] + ",\"P99\":" + each[n * 99 / 100]
          + ",\"Max\":" + each[n - 1] + "}");
    }
  }

  private static long written() {
    return counter("/proc/self/io", "write_bytes:")
        - counter("/proc/self/io", "cancelled_write_bytes:");
  }

  private static long counter(String file, String name) {
    try (Stream<String> lines = Files.lines(Path.of(file))) {
      return lines.filter(l -> l.startsWith(name)).findFirst()
          .map(l -> Long.parseLong(l.substring(name.length()).replace("kB", "").trim()))
          .orElse(0L);
    } catch (IOException e) {
      return 0;
    }
  }

  private static long cpu() {
    return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
        .getProcessCpuTime();
  }

  private long space() throws IOException {
    try (Stream<Path> files = Files.walk(dir)) {
      return files.filter(Files::isRegularFile).mapToLong(f -> {
        try {
          return (long) Files.getAttribute(f, "size");
        } catch (IOException e) {
          return 0; // removed meanwhile
        }
      }).sum();
    }
  }
}
