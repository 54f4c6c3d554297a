package io.loamdb;

import java.nio.file.Path;

/**
 * A folder of backups, locked while it is open. What an earlier backup has is not copied again. An
 * interrupt cancels work that is under way. Safe for use by several threads.
 */
public final class Backups extends NativeObject {
  private static final int READ_ONLY = 1;
  private static final String RATE = "bytesPerSecond";

  private Backups(Path folder, int flags) {
    super(Kind.BACKUPS, Native.backupsOpen(Native.path(folder), flags));
  }

  /**
   * Opens a folder, or makes it in a directory that exists.
   *
   * @throws LoamException.Locked it is open already
   */
  public static Backups open(Path folder) {
    return new Backups(folder, 0);
  }

  /** Opens a folder for reading, beside other readers. */
  public static Backups openReadOnly(Path folder) {
    return new Backups(folder, READ_ONLY);
  }

  /** Makes a backup; see {@link #create(Loam, long)}. */
  public String create(Loam db) {
    return create(db, 0);
  }

  /**
   * Makes a backup of what a database has now, durable and at one moment, while writes go on.
   *
   * @param bytesPerSecond a bound of what is read, here and below; 0: none
   * @return what {@link #list} says of it, as a JSON object: its number is {@code id}
   */
  public String create(Loam db, long bytesPerSecond) {
    return Job.report(Native.backupCreate(this, db, Native.count(RATE, bytesPerSecond)), this, db);
  }

  /**
   * The backups, oldest first, as a JSON list of objects: id, created_ms, database, format, files,
   * bytes, new_bytes, error.
   */
  public String list() {
    return Native.string(Native.backupsList(this));
  }

  /**
   * Reads all files of a backup and compares them with their checksums.
   *
   * @throws LoamException.Corruption the message names every damaged file
   * @throws LoamException.DoesNotExist there is no backup with this number, here and below
   */
  public void verify(long id, long bytesPerSecond) {
    Job.run(Native.backupVerify(this, id, Native.count(RATE, bytesPerSecond)), this);
  }

  /** Makes a directory, which must not exist or be empty, a database as it was at the backup. */
  public void restore(long id, Path to, long bytesPerSecond) {
    Job.run(Native.backupRestore(this, id, Native.path(to), Native.count(RATE, bytesPerSecond)),
        this);
  }

  /** Deletes a backup. */
  public void delete(long id) {
    Native.backupDelete(this, id);
  }

  /** Deletes, of the backups of each database, all but the newest n. */
  public void keep(long n) {
    Native.backupsKeep(this, Native.count("keep", n));
  }
}
