// Any bytes as the description of a checkpoint: either refused with a message, or every rank's part
// of every tensor lies within its buffer.
#include "runtime/checkpoint/cut.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/fuzz/memory_file.h"
#include <stdlib.h>

enum { MOST_RANKS = 64 };

static void check_cut(const bd_rt_manifest *m, const bd_rt_weight *weight, int kind, int rank) {
  int coord[BD_RT_MAX_AXES] = {0};
  bd_rt_mesh_coord(m->program.axes, m->program.mesh, rank, coord);
  bd_rt_cut held = bd_rt_cut_held(&m->program, weight, kind, coord);
  bd_rt_cut written = bd_rt_cut_written(&m->program, weight, kind, coord);
  if (held.start < 0 || held.count < 0 || held.start + held.count > held.local.elements) abort();
  if (written.count < 0 || written.start < held.start ||
      written.start + written.count > held.start + held.count)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  memory_file file;
  char message[256] = "";
  bd_rt_manifest m;
  if (!memory_file_open(&file, data, size)) return 0;
  if (bd_rt_manifest_read(file.path, &m, message, sizeof message) == 0) {
    for (int i = 0; i < m.weight_count; i++) {
      if (bd_rt_manifest_find(&m, m.weights[i].weight.global_index) != &m.weights[i]) abort();
      for (int kind = 0; kind < BD_RT_SAVED_KINDS; kind++)
        for (int rank = 0; rank < m.devices && rank < MOST_RANKS; rank++)
          if (bd_rt_saved_has(&m.program, &m.weights[i].weight, kind))
            check_cut(&m, &m.weights[i].weight, kind, rank);
    }
    bd_rt_manifest_close(&m);
  } else if (!message[0]) {
    abort();
  }
  memory_file_close(&file);
  return 0;
}
