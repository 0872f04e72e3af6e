// The files of a checkpoint while weights are filled from them.
#ifndef BD_RT_ORIGIN_H
#define BD_RT_ORIGIN_H
#include "runtime/checkpoint/cut.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/manifest.h"

enum { BD_RT_OPEN_FILES = 32 };

typedef struct bd_rt_origin {
  const char *path; // of the checkpoint
  bd_rt_manifest manifest;
  bd_rt_file open[BD_RT_OPEN_FILES]; // file `rank` in slot rank % BD_RT_OPEN_FILES
  int open_rank[BD_RT_OPEN_FILES];   // -1: none
} bd_rt_origin;

// Reads what the checkpoint says of itself. 0, or BD_RT_EXIT_DATA and a message; else for
// bd_rt_origin_close. `path` must outlive it.
int bd_rt_origin_open(const char *path, bd_rt_origin *out, char *message, size_t message_bytes);
void bd_rt_origin_close(bd_rt_origin *origin);

// Fills `data`, the elements [target->start, target->start + target->count) of the buffer of
// `target`, whose numbers are of `target->dtype`, from all ranks' cuts of that kind of a saved
// weight; padding becomes 0. Uses the rank's scratch. 0, or a BD_RT_EXIT status and a message.
int bd_rt_origin_fill(bd_rt *rt, bd_rt_origin *origin, const bd_rt_saved *saved, int kind,
                      const bd_rt_cut *target, void *data, char *message, size_t message_bytes);
#endif
