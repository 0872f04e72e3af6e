#include "runtime/checkpoint/origin.h"

#include "runtime/backend.h"
#include "runtime/half.h"

#include <stdio.h>
#include <string.h>

enum { PIECE = BD_RT_SCRATCH_FLOATS / 2 };

typedef struct filling {
  bd_rt_origin *origin;
  const bd_rt_saved *saved;
  int kind;
  const bd_rt_cut *target;
  int64_t first, count; // of the target's positions: those that are filled at a time
  float *raw, *values;
  // The rank whose cut is looked at, its tensor, and elements that follow one another in both.
  bd_rt_cut cut;
  const bd_rt_file *file;
  const bd_rt_tensor *tensor;
  int64_t from, to, run;
  int64_t filled;
  int failed;
} filling;

int bd_rt_origin_open(const char *path, bd_rt_origin *out, char *message, size_t message_bytes) {
  char manifest[BD_RT_PATH];
  *out = (bd_rt_origin){.path = path};
  for (int i = 0; i < BD_RT_OPEN_FILES; i++)
    out->open_rank[i] = -1;
  if (bd_rt_checkpoint_manifest_path(path, manifest))
    return bd_rt_manifest_read(manifest, &out->manifest, message, message_bytes);
  snprintf(message, message_bytes, "%s: a path too long", path);
  return BD_RT_EXIT_DATA;
}

static void close_slot(bd_rt_origin *origin, int slot) {
  if (origin->open_rank[slot] >= 0) bd_rt_file_close(&origin->open[slot]);
  origin->open_rank[slot] = -1;
}

void bd_rt_origin_close(bd_rt_origin *origin) {
  for (int i = 0; i < BD_RT_OPEN_FILES; i++)
    close_slot(origin, i);
  bd_rt_manifest_close(&origin->manifest);
}

static const bd_rt_file *file_of(bd_rt_origin *origin, int rank, char *message,
                                 size_t message_bytes) {
  const int slot = rank % BD_RT_OPEN_FILES;
  char path[BD_RT_PATH];
  if (origin->open_rank[slot] == rank) return &origin->open[slot];
  close_slot(origin, slot);
  if (!bd_rt_checkpoint_file_path(origin->path, rank, path)) {
    snprintf(message, message_bytes, "%s: a path too long", origin->path);
    return NULL;
  }
  if (bd_rt_file_open(path, &origin->open[slot], message, message_bytes)) return NULL;
  origin->open_rank[slot] = rank;
  return &origin->open[slot];
}

// Reads what is waiting to be read.
static void flush(filling *f) {
  if (f->run > 0 && bd_rt_file_read(f->file, f->tensor, f->from - f->cut.start, f->run, f->raw,
                                    f->values + (f->to - f->first)))
    f->failed = 1;
  f->filled += f->run;
  f->run = 0;
}

// `count` elements from position `from` of the cut's buffer are those from position `to` of the
// target's.
static void take(filling *f, int64_t from, int64_t to, int64_t count) {
  const int64_t before = f->cut.start - from;
  if (before > 0) from += before, to += before, count -= before;
  count = bd_rt_least(count, f->cut.start + f->cut.count - from);
  if (count <= 0) return;
  if (f->run == 0 || f->from + f->run != from || f->to + f->run != to) {
    flush(f);
    f->from = from;
    f->to = to;
  }
  f->run += count;
}

// Of a row of the target what the cut's part of the tensor has.
static void take_row(void *args, int64_t flat, int64_t at, int64_t count) {
  filling *const f = args;
  const bd_rt_local *const local = &f->cut.local;
  const int last = local->rank - 1;
  const int64_t index = last < 0 ? 0 : flat % local->dims[last];
  const int64_t start = last < 0 ? 0 : local->start[last];
  const int64_t end = start + (last < 0 ? 1 : local->count[last]);
  const int64_t skipped = start > index ? start - index : 0;
  const int64_t common = bd_rt_least(index + count, end) - (index + skipped);
  if (common <= 0) return;
  const int64_t from = bd_rt_local_find(local, flat + skipped);
  if (from >= 0) take(f, from, at + skipped, common);
}

// Whether no element is in both.
static int apart(const bd_rt_local *a, const bd_rt_local *b) {
  for (int d = 0; d < a->rank; d++)
    if (a->start[d] + a->count[d] <= b->start[d] || b->start[d] + b->count[d] <= a->start[d])
      return 1;
  return 0;
}

// 0, or a status and a message.
static int find_tensor(filling *f, int rank, char *message, size_t message_bytes) {
  char name[BD_RT_CUT_NAME];
  bd_rt_cut_name(f->saved->weight.global_index, f->kind, name);
  f->file = file_of(f->origin, rank, message, message_bytes);
  if (!f->file) return BD_RT_EXIT_DATA;
  f->tensor = bd_rt_file_named(f->file, name);
  if (f->tensor && f->tensor->dtype == f->cut.dtype && f->tensor->rank == 1 &&
      f->tensor->dims[0] == f->cut.count)
    return 0;
  snprintf(message, message_bytes, "%s: rank %d's file does not have \"%s\" as its plan has it",
           f->origin->path, rank, name);
  return BD_RT_EXIT_DATA;
}

// What rank `number` of the stage that wrote the weight has of the elements at hand.
static int take_from(filling *f, int number, char *message, size_t message_bytes) {
  const bd_rt_manifest *const m = &f->origin->manifest;
  const bd_rt_program *const plan = &m->program;
  int coord[BD_RT_MAX_AXES] = {0};
  bd_rt_mesh_coord(plan->axes, plan->mesh, number, coord);
  f->cut = bd_rt_cut_written(plan, &f->saved->weight, f->kind, coord);
  if (f->cut.count == 0 || apart(&f->cut.local, &f->target->local)) return 0;
  const int status = find_tensor(f, f->saved->stage * m->devices + number, message, message_bytes);
  if (status) return status;
  bd_rt_local_window(&f->target->local, f->first, f->count, take_row, f);
  flush(f);
  return 0;
}

static void count_row(void *args, int64_t flat, int64_t at, int64_t count) {
  (void)flat, (void)at;
  *(int64_t *)args += count;
}

// The elements at hand, as the target has them.
static void store(bd_rt *rt, const filling *f, void *data) {
  const int dtype = f->target->dtype;
  const int64_t bytes = bd_rt_element_bytes(dtype);
  char *const at = (char *)data + (f->first - f->target->start) * bytes;
  void *const mapped = bd_rt_map(rt, at, f->count * bytes);
  for (int64_t i = 0; i < f->count; i++)
    bd_rt_put_element(dtype, mapped, i, f->values[i]);
  bd_rt_unmap(rt, at, f->count * bytes);
}

static int fill_piece(bd_rt *rt, filling *f, void *data, char *message, size_t message_bytes) {
  int64_t wanted = 0;
  int status = 0;
  f->filled = 0;
  memset(f->values, 0, (size_t)f->count * sizeof *f->values);
  bd_rt_local_window(&f->target->local, f->first, f->count, count_row, &wanted);
  for (int r = 0; r < f->origin->manifest.devices && !status; r++)
    status = take_from(f, r, message, message_bytes);
  if (!status && (f->failed || f->filled != wanted)) {
    snprintf(message, message_bytes, "%s: %s of \"%s\" %s", f->origin->path,
             bd_rt_saved_name(f->kind), f->saved->weight.stored_name,
             f->failed ? "cannot be read" : "is not there once for each element");
    status = BD_RT_EXIT_DATA;
  }
  if (!status) store(rt, f, data);
  return status;
}

int bd_rt_origin_fill(bd_rt *rt, bd_rt_origin *origin, const bd_rt_saved *saved, int kind,
                      const bd_rt_cut *target, void *data, char *message, size_t message_bytes) {
  filling f = {.origin = origin,
               .saved = saved,
               .kind = kind,
               .target = target,
               .raw = rt->scratch,
               .values = rt->scratch + PIECE};
  const int64_t end = target->start + target->count;
  int status = 0;
  for (f.first = target->start; f.first < end && !status; f.first += PIECE) {
    f.count = bd_rt_least(PIECE, end - f.first);
    status = fill_piece(rt, &f, data, message, message_bytes);
  }
  return status;
}
