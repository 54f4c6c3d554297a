package io.loamdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Opens what LevelDB, goleveldb and earlier versions of Loam wrote. */
class GoldenTest {
  @TempDir Path directory;

  @Test
  void directories() throws Exception {
    int seen = 0;
    Path testdata = Path.of(System.getProperty("loam.root"), "testdata");
    try (var folders = Files.newDirectoryStream(testdata, "*-*")) {
      for (Path folder : folders) {
        for (String state : new String[] {"closed", "killed"}) {
          Path copy = directory.resolve(folder.getFileName() + "-" + state);
          copy(folder.resolve(state), copy);
          Map<String, String> expected = new TreeMap<>();
          for (String line : Files.readAllLines(folder.resolve("expected"))) {
            String[] words = line.split(" ");
            boolean alone = words.length == 2;
            expected.put(alone ? "default" : words[0],
                alone ? line : words[1] + " " + words[2]);
          }
          assertEquals(expected, found(copy), copy.toString());
          seen++;
        }
      }
    }
    assertTrue(seen >= 10);
  }

  private static void copy(Path from, Path to) throws IOException {
    try (var files = Files.walk(from)) {
      for (Path file : (Iterable<Path>) files::iterator) {
        Files.copy(file, to.resolve(from.relativize(file).toString()));
      }
    }
  }

  private static Map<String, String> found(Path path) throws NoSuchAlgorithmException {
    Map<String, String> found = new TreeMap<>();
    try (Loam db = Loam.open(path)) {
      for (String name : db.keyspaces()) {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        long n = 0;
        try (LoamIterator it = db.keyspace(name).iterator()) {
          for (; it.next(); n++) {
            Bytes entry = new Bytes(64);
            entry.addWithLength(it.key());
            entry.addWithLength(it.value());
            digest.update(entry.data, 0, entry.length);
          }
        }
        found.put(name, n + " " + HexFormat.of().formatHex(digest.digest()));
      }
    }
    return found;
  }
}
