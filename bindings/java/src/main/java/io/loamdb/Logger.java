package io.loamdb;

/**
 * Gets the messages of a database, for {@link Options#logger}. It is called by any thread, several
 * at once. It may call Loam, but not close the database. When it throws it is not called again.
 */
@FunctionalInterface
public interface Logger {
  /** How important a message is. */
  enum Level { DEBUG, INFO, WARNING, ERROR }

  /** Takes a message of one or several lines. */
  void log(Level level, String message);
}
