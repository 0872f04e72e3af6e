// Weights to a safetensors file: stored tensors are assembled from the ranks piece by piece,
// written to a temporary file, and renamed when they are safe on disk.
#include "runtime/save.h"

#include "runtime/backend.h"
#include "runtime/master.h"
#include "runtime/safetensors_header.h"
#include "runtime/tie.h"
#include "runtime/write_all.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = BD_RT_SCRATCH_FLOATS / 4 };

static int make_header(int count, const bd_rt_stored *stored, bd_rt_header *out) {
  if (!bd_rt_header_begin(out)) return 0;
  for (int i = 0; i < count; i++)
    bd_rt_header_add(out, stored[i].name, BD_RT_F32, stored[i].weight->stored_rank,
                     stored[i].weight->stored_dims);
  return bd_rt_header_end(out);
}

// Whether this rank speaks for its elements: replicas stay silent, and so do later stages.
static int speaks(const bd_rt *rt, const bd_rt_weight *weight) {
  const bd_rt_layout layout = bd_rt_plain_layout(rt, weight);
  for (int a = 0; a < rt->program->axes; a++)
    if (layout.at[a] < 0 && rt->coord[a] > 0) return 0;
  return bd_rt_first_holder(rt, weight->global_index) == rt->stage_index;
}

static void collect_piece(bd_rt *rt, const bd_rt_stored *stored, int64_t first, int64_t count) {
  const char *const name = bd_rt_stored_name(stored->weight, stored->number);
  memset(rt->scratch, 0, (size_t)count * sizeof(float));
  for (int i = 0; i < rt->stage->weight_count; i++) {
    const bd_rt_weight *const weight = &rt->stage->weights[i];
    if (stored->number >= bd_rt_stored_count(weight) ||
        strcmp(bd_rt_stored_name(weight, stored->number), name) || !speaks(rt, weight))
      continue;
    const bd_rt_local local = bd_rt_plain_local(rt, weight);
    const int64_t start = stored->number * bd_rt_stored_elements(weight);
    bd_rt_pick(rt, weight, &local, start + first, count, bd_rt_plain_dtype(rt, weight),
               bd_rt_plain(rt, weight), rt->scratch);
  }
  // Every element has one speaker: or-ing bits moves it unchanged.
  bd_rt_merge_words(rt, (uint32_t *)(void *)rt->scratch, (int)count);
}

// All ranks go through all pieces; rank 0 writes while it can. Returns whether it could.
static int write_tensors(bd_rt *rt, int tensors, const bd_rt_stored *stored, int fd) {
  int good = 1;
  for (int i = 0; i < tensors; i++) {
    const int64_t elements = bd_rt_stored_elements(stored[i].weight);
    for (int64_t first = 0; first < elements; first += PIECE) {
      const int64_t count = elements - first < PIECE ? elements - first : PIECE;
      collect_piece(rt, &stored[i], first, count);
      if (rt->rank == 0 && good)
        good = bd_rt_write_all(fd, rt->scratch, (size_t)count * sizeof(float));
    }
  }
  return good;
}

static int finish(int fd, int good, const char *temporary, const char *path) {
  good = good && !fsync(fd);
  good = !close(fd) && good;
  good = good && !rename(temporary, path);
  if (!good) {
    const int reason = errno;
    unlink(temporary);
    errno = reason;
  }
  return good;
}

int bd_rt_save_file(bd_rt *rt, const char *path, int count, const bd_rt_stored *stored) {
  char message[1024] = "", temporary[4096];
  int fd = -1, status = 0;
  snprintf(temporary, sizeof temporary, "%s.partial", path);
  if (rt->rank == 0) {
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
      snprintf(message, sizeof message, "%s.partial: %s", path, strerror(errno));
      status = BD_RT_EXIT_EXTERNAL;
    }
  }
  status = bd_rt_agree(rt, status, message);
  if (status) return status;
  bd_rt_header header = {0};
  int good = rt->rank != 0 || (make_header(count, stored, &header) &&
                               bd_rt_write_all(fd, header.text, header.bytes));
  good = write_tensors(rt, count, stored, fd) && good;
  if (rt->rank == 0 && !finish(fd, good, temporary, path)) {
    snprintf(message, sizeof message, "%s: cannot be written: %s", path, strerror(errno));
    status = BD_RT_EXIT_EXTERNAL;
  }
  free(header.text);
  return bd_rt_agree(rt, status, message);
}
