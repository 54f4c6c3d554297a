/*
 * The engine, libloam, loaded at run time. The addon is not linked with it:
 * requiring the package starts no thread and loads no Go.
 */
#ifndef LOAMDB_LIBRARY_H
#define LOAMDB_LIBRARY_H

#include "loam.h"

#define LOAM_FUNCTIONS(X)                                                      \
  X(abi_check) X(status_string) X(error_errno) X(error_path) X(free)           \
  X(options_create) X(options_close) X(options_set) X(options_describe)        \
  X(options_set_cache) X(options_set_logger) X(cache_create) X(cache_close)    \
  X(open) X(close) X(destroy) X(repair) X(upgrade) X(export)                   \
  X(dump_start) X(load_start) X(dump_verify_start) X(dump_check)               \
  X(close_start) X(compact_start) X(verify_start) X(rekey_start)                \
  X(checkpoint_start) X(keys_in_use)                                           \
  X(job_wait) X(job_progress) X(job_cancel) X(job_close) X(job_report)         \
  X(backup_open) X(backup_create_start) X(backup_list) X(backup_verify_start)  \
  X(backup_restore_start) X(backup_delete) X(backup_keep) X(backup_close)      \
  X(get) X(get_alloc) X(has) X(multi_get)                                      \
  X(snapshot_create) X(snapshot_close)                                         \
  X(put) X(delete) X(batch_create) X(batch_clear) X(write_bytes)               \
  X(batch_delete) X(batch_delete_range) X(batch_close) X(write)                \
  X(delete_range) X(iter_first) X(iter_last)                                   \
  X(keyspace_open) X(keyspace_drop) X(keyspace_list) X(keyspace_number)        \
  X(iter_create) X(iter_close) X(iter_place) X(iter_next_block)                \
  X(iter_prev_block) X(iter_seek) X(iter_next) X(iter_set_bounds)              \
  X(txn_begin) X(txn_get) X(txn_get_for_update) X(txn_put) X(txn_delete)       \
  X(txn_has) X(txn_merge) X(txn_delete_range)                                  \
  X(txn_iter_create) X(txn_savepoint) X(txn_rollback_to) X(txn_commit)         \
  X(txn_rollback) X(txn_close) X(compare_and_swap) X(txn_put_ttl) X(ttl)                       \
  X(catch_up_start) X(lag) X(batch_create_from)                                \
  X(changes_open) X(changes_next) X(changes_position) X(changes_keyspace)      \
  X(changes_close)                                                             \
  X(table_writer_create) X(table_writer_put) X(table_writer_put_ttl)           \
  X(table_writer_delete) X(table_writer_delete_range) X(table_writer_size)     \
  X(table_writer_finish) X(table_writer_close) X(ingest_start)                 \
  X(bulk_load_begin) X(bulk_load_add) X(bulk_load_finish_start)                \
  X(bulk_load_close)                                                           \
  X(flush) X(pause_compaction) X(resume_compaction) X(retry)                   \
  X(property) X(metrics) X(recovery_report) X(comparator_name)                 \
  X(approximate_sizes) X(set_option) X(option)                                 \
  X(resources_create) X(resources_set) X(resources_metrics)

struct loam_library {
#define X(name) __typeof__(loam_##name) *name;
  LOAM_FUNCTIONS(X)
#undef X
};

/* Valid after a successful library_load. One library for the whole process;
 * all of it may be called from any thread. */
extern struct loam_library loam;

/* Loads the library from a path unless it is loaded. Returns NULL, or a
 * malloc'ed sentence. Any thread. */
char *library_load(const char *path);

#endif
