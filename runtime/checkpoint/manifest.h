// What a checkpoint says of itself: checkpoint.json, written last. It tells where training stood,
// how the plan that wrote it cut every weight, and how each rank's file is known again.
#ifndef BD_RT_MANIFEST_H
#define BD_RT_MANIFEST_H
#include "runtime/checkpoint/rank_file.h"

enum { BD_RT_MANIFEST_FORMAT = 1, BD_RT_MOST_FILES = 1 << 20 };

// A weight has global_index, stored_name and what runtime/checkpoint/cut.h names.
typedef struct bd_rt_saved {
  bd_rt_weight weight;
  int stage; // whose ranks wrote it
} bd_rt_saved;

// `program` has optimizer, stages, axes, mesh, zero_axes, global_batch and sequence alone.
typedef struct bd_rt_manifest {
  bd_rt_program program;
  int devices; // of a stage
  int64_t step, updates, finite_steps, data_count;
  uint64_t seed;
  float loss_scale;
  int weight_count, file_count;
  bd_rt_saved *weights; // by global_index, each once
  bd_rt_seal *files;    // by rank
  char *text;           // what the names are in
} bd_rt_manifest;

// Of the run as it stands, with the seals of all ranks. 0 or an errno.
int bd_rt_manifest_write(const bd_rt *rt, const char *path, const bd_rt_seal *seals);
// 0, or BD_RT_EXIT_DATA and a message; else for bd_rt_manifest_close. Numbers are such that no
// function of a cut overflows.
int bd_rt_manifest_read(const char *path, bd_rt_manifest *out, char *message, size_t message_bytes);
void bd_rt_manifest_close(bd_rt_manifest *manifest);
// The weight of this number, or NULL.
const bd_rt_saved *bd_rt_manifest_find(const bd_rt_manifest *manifest, int global_index);
#endif
