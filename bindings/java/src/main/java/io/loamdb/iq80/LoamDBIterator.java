package io.loamdb.iq80;

import static io.loamdb.iq80.LoamDB.translated;

import io.loamdb.LoamIterator;
import java.util.AbstractMap.SimpleImmutableEntry;
import java.util.Map;
import java.util.NoSuchElementException;
import org.iq80.leveldb.DBIterator;

/**
 * Stands at the entry that {@link #next} returns, or behind the last one, from where only a seek
 * goes back, as leveldbjni has it.
 */
final class LoamDBIterator implements DBIterator {
  private final LoamIterator at;
  /** False until the first use: then it stands before the first entry, which is not read yet. */
  private boolean placed;

  LoamDBIterator(LoamIterator at) {
    this.at = at;
  }

  @Override
  public void seek(byte[] key) {
    placed = true;
    translated(() -> at.seek(key));
  }

  @Override
  public void seekToFirst() {
    placed = false; // until it succeeds: the next use tries again
    translated(at::seekToFirst);
    placed = true;
  }

  @Override
  public void seekToLast() {
    placed = true;
    translated(at::seekToLast);
  }

  private boolean isValid() {
    if (!placed) {
      seekToFirst();
    }
    return at.isValid();
  }

  @Override
  public boolean hasNext() {
    return isValid();
  }

  @Override
  public Map.Entry<byte[], byte[]> peekNext() {
    if (!isValid()) {
      throw new NoSuchElementException();
    }
    return new SimpleImmutableEntry<>(at.key(), at.value());
  }

  @Override
  public Map.Entry<byte[], byte[]> next() {
    Map.Entry<byte[], byte[]> entry = peekNext();
    translated(at::next);
    return entry;
  }

  @Override
  public boolean hasPrev() {
    if (!isValid()) {
      return false;
    }
    boolean any = translated(at::prev);
    translated(at::next);
    return any;
  }

  @Override
  public Map.Entry<byte[], byte[]> prev() {
    if (!isValid()) {
      throw new NoSuchElementException();
    }
    if (!translated(at::prev)) {
      translated(at::next);
      throw new NoSuchElementException();
    }
    return peekNext();
  }

  @Override
  public Map.Entry<byte[], byte[]> peekPrev() {
    Map.Entry<byte[], byte[]> entry = prev();
    translated(at::next);
    return entry;
  }

  @Override
  public void remove() {
    throw new UnsupportedOperationException();
  }

  @Override
  public void close() {
    at.close();
  }
}
