package io.loamdb;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/**
 * Options of a database or keyspace, by name ({@link #set}), and as methods for the usual ones. All
 * have defaults. Options are read when a database opens, and may then be changed for the next one.
 * For use by one thread at a time.
 */
public final class Options {
  private final Map<String, String> values = new LinkedHashMap<>();
  private Cache cache;
  private KeyComparator comparator;
  private MergeOperator mergeOperator;
  private CompactionFilter compactionFilter;
  private Logger logger;

  /**
   * Sets an option by its name in docs/options.md: {@code write_buffer_size} to {@code "64MiB"},
   * {@code compression} to {@code "none,snappy,zstd"}, {@code default_ttl} to 3600. An unknown name
   * or a bad value is found when the database opens.
   */
  public Options set(String name, Object value) {
    values.put(Objects.requireNonNull(name, "name"), String.valueOf(value));
    return this;
  }

  /** Creates a database when there is none. Default: true. */
  public Options createIfMissing(boolean create) {
    return set("error_if_missing", !create);
  }

  /** Fails with {@link LoamException.Exists} when there is one. Default: false. */
  public Options errorIfExists(boolean fail) {
    return set("error_if_exists", fail);
  }

  /** Changes nothing on disk. Default: false. */
  public Options readOnly(boolean readOnly) {
    return set("read_only", readOnly);
  }

  /** The format of a new database: {@code "native"}, the default, or {@code "leveldb"}. */
  public Options format(String format) {
    return set("format", format);
  }

  /** Bytes of one memtable. Default: 64 MiB. */
  public Options writeBufferSize(long bytes) {
    return set("write_buffer_size", bytes);
  }

  /** Bytes of the block cache, indexes and filters included. Default: 64 MiB. */
  public Options cacheSize(long bytes) {
    return set("cache_size", bytes);
  }

  /** none, snappy or zstd, or one for each level. Default: snappy. */
  public Options compression(String compression) {
    return set("compression", compression);
  }

  /** Filter bits per key; 0: none. Default: 10. */
  public Options bloomBits(int bits) {
    return set("bloom_bits", bits);
  }

  /** A cache, or resources, to share with other databases. Default: a cache of its own. */
  public Options cache(Cache shared) {
    cache = shared;
    return this;
  }

  /** A built-in order, by its name, such as {@code "rocksdb.ReverseBytewiseComparator"}. */
  public Options comparator(String name) {
    comparator = null;
    return set("comparator", name);
  }

  /** An order of keys in Java, which costs much more than a built-in one. Default: bytewise. */
  public Options comparator(KeyComparator order) {
    comparator = order;
    return this;
  }

  /** A built-in operator: uint64add, int64add, max, min, append, append:DELIMITER, json_merge. */
  public Options mergeOperator(String name) {
    mergeOperator = null;
    return set("merge_operator", name);
  }

  /** A merge operator in Java. Default: none. */
  public Options mergeOperator(MergeOperator operator) {
    mergeOperator = operator;
    return this;
  }

  /** A built-in filter, such as {@code "prefix:tmp/,cache/"}. */
  public Options compactionFilter(String name) {
    compactionFilter = null;
    return set("compaction_filter", name);
  }

  /** A compaction filter in Java. Default: none. */
  public Options compactionFilter(CompactionFilter filter) {
    compactionFilter = filter;
    return this;
  }

  /** Gets the database's messages. Default: none. */
  public Options logger(Logger receiver) {
    logger = receiver;
    return this;
  }

  /** All options by name, as JSON: name, doc, unit, default, min, max. */
  public static String describe() {
    return Native.string(Native.optionsDescribe());
  }

  /** A copy for the library; the caller closes it. */
  static Made make(Options options) {
    Made made = new Made();
    try {
      if (options != null) {
        options.fill(made);
      }
      return made;
    } catch (RuntimeException | Error e) {
      made.close();
      throw e;
    }
  }

  private void fill(Made made) {
    values.forEach((name, value) ->
        Native.optionsSet(made, Native.text(name), Native.text(value)));
    if (cache != null) {
      Native.optionsCache(made, cache);
    }
    if (comparator != null) {
      Native.optionsComparator(made, nameOf(comparator.name()), comparator,
          comparator.equalIsBytewise());
    }
    if (mergeOperator != null) {
      Native.optionsMergeOperator(made, nameOf(mergeOperator.name()), mergeOperator);
    }
    if (compactionFilter != null) {
      Native.optionsFilter(made, nameOf(compactionFilter.name()), compactionFilter);
    }
    if (logger != null) {
      Native.optionsLogger(made, logger);
    }
  }

  private static byte[] nameOf(String name) {
    return Native.text(Objects.requireNonNull(name, "the name of a callback"));
  }

  /** The library's own options. */
  static final class Made extends NativeObject {
    private Made() {
      super(Kind.OPTIONS, Native.optionsCreate());
    }
  }
}
