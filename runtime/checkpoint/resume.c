#include "runtime/backend.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/held.h"
#include "runtime/checkpoint/origin.h"
#include "runtime/master.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MESSAGE = BD_RT_PATH + 256 };

// Why the run cannot go on from there, or NULL.
static const char *misfit(const bd_rt *rt, const bd_rt_manifest *m, char *text, size_t bytes) {
  const bd_rt_program *const p = rt->program;
  if (m->program.optimizer != p->optimizer) {
    snprintf(text, bytes, "its optimizer is %s, this program's is %s",
             bd_rt_optimizer_name(m->program.optimizer), bd_rt_optimizer_name(p->optimizer));
  } else if (m->seed != rt->options.seed) {
    snprintf(text, bytes, "it is of a run with --seed %llu", (unsigned long long)m->seed);
  } else if (m->weight_count != p->tensors) {
    snprintf(text, bytes, "its model has %d weights, this program's has %d", m->weight_count,
             p->tensors);
  } else {
    return NULL;
  }
  return text;
}

static int same_weight(const bd_rt_weight *a, const bd_rt_weight *b) {
  return !strcmp(a->stored_name, b->stored_name) && a->layout.rank == b->layout.rank &&
         !memcmp(a->layout.dims, b->layout.dims, (size_t)a->layout.rank * sizeof a->layout.dims[0]);
}

static int fill_weight(bd_rt *rt, bd_rt_origin *origin, const bd_rt_weight *weight, char *message,
                       size_t bytes) {
  const bd_rt_saved *const saved = bd_rt_manifest_find(&origin->manifest, weight->global_index);
  if (!saved || !same_weight(&saved->weight, weight)) {
    snprintf(message, bytes, "%s: its model has another weight in the place of \"%s\"",
             origin->path, weight->stored_name);
    return BD_RT_EXIT_DATA;
  }
  const bd_rt_local local = bd_rt_plain_local(rt, weight);
  const bd_rt_cut plain = {local, bd_rt_plain_dtype(rt, weight), 0, local.elements};
  int status = bd_rt_origin_fill(rt, origin, saved, BD_RT_SAVED_WEIGHT, &plain,
                                 bd_rt_plain(rt, weight), message, bytes);
  for (int kind = BD_RT_SAVED_WEIGHT + 1; kind < BD_RT_SAVED_KINDS && !status; kind++) {
    if (!bd_rt_saved_has(rt->program, weight, kind)) continue;
    const bd_rt_cut held = bd_rt_cut_held(rt->program, weight, kind, rt->coord);
    status = bd_rt_origin_fill(rt, origin, saved, kind, &held, bd_rt_held_data(rt, weight, kind),
                               message, bytes);
  }
  return status;
}

// Ranks that have failed go on with what is collective.
static int fill_all(bd_rt *rt, bd_rt_origin *origin, char *message, size_t bytes) {
  int status = 0;
  for (int i = 0; i < rt->stage->weight_count; i++) {
    const bd_rt_weight *const weight = &rt->stage->weights[i];
    if (!status) status = fill_weight(rt, origin, weight, message, bytes);
    bd_rt_store_plain(rt, weight);
  }
  return status;
}

// The files that fall to this rank are those that were written.
static int check_files(bd_rt *rt, const bd_rt_origin *origin, char *message, size_t bytes) {
  const bd_rt_manifest *const m = &origin->manifest;
  int status = 0;
  for (int file = rt->rank; file < m->file_count && !status; file += rt->ranks) {
    char path[BD_RT_PATH];
    if (bd_rt_checkpoint_file_path(origin->path, file, path))
      status = bd_rt_rank_file_check(rt, path, m->files[file], message, bytes);
  }
  return status;
}

static void take_state(bd_rt *rt, const char *path, const bd_rt_manifest *m) {
  rt->step = (uint64_t)m->step;
  rt->updates = (uint64_t)m->updates;
  if (rt->program->precision == BD_RT_F16) {
    rt->loss_scale = m->loss_scale;
    rt->finite_steps = m->finite_steps;
  }
  if (rt->rank != 0) return;
  bd_rt_say("goes on from %s", path);
  if (m->program.global_batch != rt->program->global_batch ||
      m->program.sequence != rt->program->sequence)
    bd_rt_say("its steps had %lld samples of %lld, these have %lld of %lld: other samples follow",
              (long long)m->program.global_batch, (long long)m->program.sequence,
              (long long)rt->program->global_batch, (long long)rt->program->sequence);
  if (m->data_count > 0 && rt->data.count > 0 && m->data_count != rt->data.count)
    bd_rt_say("its data had %lld entries, --data has %lld: other samples follow",
              (long long)m->data_count, (long long)rt->data.count);
}

// *out_damaged: it is not as it was written, and another may be.
static int take_checkpoint(bd_rt *rt, const char *path, int *out_damaged) {
  char message[MESSAGE] = "", text[256];
  bd_rt_origin origin;
  int status = bd_rt_origin_open(path, &origin, message, sizeof message);
  if (!status) status = check_files(rt, &origin, message, sizeof message);
  *out_damaged = (status = bd_rt_agree(rt, status, message)) != 0;
  if (status) {
    bd_rt_origin_close(&origin);
    return status;
  }
  const char *const why = misfit(rt, &origin.manifest, text, sizeof text);
  if (why) {
    snprintf(message, sizeof message, "%s: %s", path, why);
    status = BD_RT_EXIT_DATA;
  }
  status = bd_rt_agree(rt, status, message);
  if (!status) status = bd_rt_agree(rt, fill_all(rt, &origin, message, sizeof message), message);
  if (!status) take_state(rt, path, &origin.manifest);
  bd_rt_origin_close(&origin);
  return status;
}

// From the newest on; damaged ones make room where this run writes its own.
static int take_newest(bd_rt *rt, const int64_t *steps, int64_t count, int *out_resumed) {
  const bd_rt_options *const o = &rt->options;
  int damaged = 1, status = 0;
  for (int64_t i = count - 1; i >= 0 && damaged; i--) {
    char path[BD_RT_PATH], aside[BD_RT_PATH];
    const int64_t step = bd_rt_checkpoint_tell(rt, rt->rank == 0 ? steps[i] : 0);
    if (!bd_rt_checkpoint_path(o->resume, step, path)) return BD_RT_EXIT_DATA;
    status = take_checkpoint(rt, path, &damaged);
    if (damaged && rt->rank == 0 && bd_rt_checkpoint_same(o->checkpoint, o->resume) &&
        snprintf(aside, sizeof aside, "%s.damaged", path) < (int)sizeof aside)
      rename(path, aside);
  }
  *out_resumed = !status;
  return status;
}

// Whether the name is that of one checkpoint.
static int is_checkpoint(const char *path) {
  char manifest[BD_RT_PATH];
  struct stat about;
  return bd_rt_checkpoint_manifest_path(path, manifest) && !stat(manifest, &about);
}

int bd_rt_checkpoint_resume(bd_rt *rt, int *out_resumed) {
  const bd_rt_options *const o = &rt->options;
  char message[MESSAGE] = "";
  int64_t *steps = NULL;
  int count = 0, damaged, status = 0;
  *out_resumed = 0;
  if (!o->resume) return 0;
  if (bd_rt_checkpoint_tell(rt, is_checkpoint(o->resume))) {
    status = take_checkpoint(rt, o->resume, &damaged);
    *out_resumed = !status;
    return status;
  }
  const int error = rt->rank == 0 ? bd_rt_checkpoint_list(o->resume, &steps, &count) : 0;
  if (error || (rt->rank == 0 && count == 0 && !bd_rt_checkpoint_same(o->checkpoint, o->resume))) {
    snprintf(message, sizeof message, "%s: %s", o->resume,
             error ? strerror(error) : "has no checkpoint to go on from");
    status = BD_RT_EXIT_DATA;
  }
  status = bd_rt_agree(rt, status, message);
  const int64_t all = status ? 0 : bd_rt_checkpoint_tell(rt, count);
  if (all > 0) status = take_newest(rt, steps, all, out_resumed);
  free(steps);
  return status;
}
