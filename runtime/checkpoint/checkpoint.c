#include "runtime/checkpoint/checkpoint.h"

#include "runtime/backend.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/deferred.h"
#include "runtime/outputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE = BD_RT_PATH + 256 };

int64_t bd_rt_checkpoint_tell(bd_rt *rt, int64_t number) {
  double value = rt->rank == 0 ? (double)number : 0;
  bd_rt_sum_ranks(rt, &value, 1);
  return (int64_t)value;
}

// What stands in the folder: the newest step's number, or -1. On rank 0.
static int look_at_folder(const bd_rt *rt, int resumed, int64_t *out_newest, char *message,
                          size_t message_bytes) {
  const char *const folder = rt->options.checkpoint;
  int64_t *steps = NULL;
  int count = 0;
  if (!bd_rt_outputs_folder_writable(folder, message, message_bytes)) return BD_RT_EXIT_EXTERNAL;
  const int error = bd_rt_checkpoint_list(folder, &steps, &count);
  *out_newest = count > 0 ? steps[count - 1] : -1;
  free(steps);
  if (error) snprintf(message, message_bytes, "%s: %s", folder, strerror(error));
  if (error) return BD_RT_EXIT_EXTERNAL;
  if (count == 0 || (resumed && bd_rt_checkpoint_same(folder, rt->options.resume))) return 0;
  snprintf(
      message, message_bytes,
      "%s has checkpoints already, up to step %lld: give --resume %s to go on, or name another "
      "folder",
      folder, (long long)*out_newest, folder);
  return BD_RT_EXIT_USAGE;
}

int bd_rt_checkpoint_check(bd_rt *rt, int resumed) {
  char message[MESSAGE] = "";
  int64_t newest = -1;
  int status = 0;
  rt->kept_step = -1;
  if (!rt->options.checkpoint) return 0;
  if (rt->rank == 0) status = look_at_folder(rt, resumed, &newest, message, sizeof message);
  status = bd_rt_agree(rt, status, message);
  if (!status) rt->kept_step = bd_rt_checkpoint_tell(rt, newest);
  return status;
}

int bd_rt_checkpoint_due(const bd_rt *rt) {
  const int64_t every = rt->options.checkpoint_every;
  return rt->options.checkpoint && every > 0 && (int64_t)rt->step % every == 0;
}

// What rank 0 makes of an errno.
static int status_of(const char *path, int error, char *message, size_t message_bytes) {
  if (!error) return 0;
  snprintf(message, message_bytes, "%s: a checkpoint cannot be written: %s", path, strerror(error));
  return BD_RT_EXIT_EXTERNAL;
}

// Every rank's file, and their seals on rank 0.
static int write_files(bd_rt *rt, const char *partial, bd_rt_seal *seals) {
  enum { FIELDS = 2 };
  char message[MESSAGE] = "", path[BD_RT_PATH];
  bd_rt_seal seal = {0};
  int64_t *const rows = bd_rt_allocate((size_t)rt->ranks * FIELDS, sizeof *rows);
  int error = ENAMETOOLONG;
  if (bd_rt_checkpoint_file_path(partial, rt->rank, path))
    error = bd_rt_rank_file_write(rt, path, &seal);
  const int status = bd_rt_agree(rt, status_of(path, error, message, sizeof message), message);
  const int64_t row[FIELDS] = {seal.bytes, (int64_t)seal.digest};
  bd_rt_gather_rows(rt, row, FIELDS, rows);
  for (int r = 0; r < rt->ranks && rt->rank == 0; r++)
    seals[r] = (bd_rt_seal){rows[r * FIELDS], (uint64_t)rows[r * FIELDS + 1]};
  free(rows);
  return status;
}

// On rank 0.
static int commit(const bd_rt *rt, const char *partial, const bd_rt_seal *seals) {
  char path[BD_RT_PATH];
  if (!bd_rt_checkpoint_manifest_path(partial, path)) return ENAMETOOLONG;
  const int error = bd_rt_manifest_write(rt, path, seals);
  return error ? error : bd_rt_checkpoint_commit(rt->options.checkpoint, (int64_t)rt->step);
}

static int write_checkpoint(bd_rt *rt, bd_rt_seal *seals) {
  const char *const folder = rt->options.checkpoint;
  const int64_t step = (int64_t)rt->step;
  char message[MESSAGE] = "", partial[BD_RT_PATH];
  int error = bd_rt_checkpoint_partial_path(folder, step, partial) ? 0 : ENAMETOOLONG;
  if (!error && rt->rank == 0) error = bd_rt_checkpoint_begin(folder, partial);
  int status = bd_rt_agree(rt, status_of(folder, error, message, sizeof message), message);
  if (status) return status;
  status = write_files(rt, partial, seals);
  error = !status && rt->rank == 0 ? commit(rt, partial, seals) : 0;
  if (!status)
    status = bd_rt_agree(rt, status_of(partial, error, message, sizeof message), message);
  if (rt->rank == 0 && status) bd_rt_checkpoint_abandon(folder, step);
  if (rt->rank == 0 && !status) bd_rt_checkpoint_prune(folder, rt->options.checkpoint_keep);
  return status;
}

int bd_rt_checkpoint_write(bd_rt *rt) {
  if (rt->kept_step == (int64_t)rt->step) return 0; // that which the run began from
  bd_rt_seal *const seals = bd_rt_allocate((size_t)rt->ranks, sizeof *seals);
  bd_rt_deferred_finish(rt);
  bd_rt_settle(rt);
  const int status = write_checkpoint(rt, seals);
  if (!status) rt->kept_step = (int64_t)rt->step;
  free(seals);
  return status;
}
