// cuDNN on the ranks of a job: all that would use it do, with one version, or none does.
#include "runtime/cuda/rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHY_BYTES = 256 };

// What a rank has found in its rehearsal.
typedef struct finding {
  int32_t uses;    // that asked for it, a bit each
  int32_t version; // 0: it has none that can be used
  int32_t planned, refused;
  char why[WHY_BYTES]; // there is none, or something was refused
} finding;

struct bd_cuda_dnn_use {
  bd_dnn *library;
  finding found;
};

bd_dnn *bd_cuda_dnn(bd_rt *rt, int use) {
  bd_rt_device *const device = rt->device;
  if (!device->dnn) {
    bd_cuda_dnn_use *const d = bd_rt_allocate(1, sizeof *d);
    if (device->launcher.no_dnn)
      snprintf(d->found.why, sizeof d->found.why, "BRAID_CUDNN=0");
    else
      d->library = bd_dnn_open(d->found.why, sizeof d->found.why);
    if (d->library) d->found.version = bd_dnn_version(d->library);
    device->dnn = d;
  }
  device->dnn->found.uses |= use;
  return device->dnn->library;
}

int64_t bd_cuda_next_divisor(int64_t whole, int64_t part) {
  while (--part > 0)
    if (whole % part == 0) break;
  return part;
}

void bd_cuda_dnn_count(bd_rt *rt, const char *refused_why) {
  finding *const f = &rt->device->dnn->found;
  f->planned += !refused_why;
  if (refused_why && f->refused++ == 0) snprintf(f->why, sizeof f->why, "%s", refused_why);
}

static const char *name_of(int32_t uses) {
  static const char *const names[] = {"nothing", "attention", "convolutions",
                                      "attention and convolutions"};
  return names[uses & (BD_CUDA_DNN_ATTENTION | BD_CUDA_DNN_CONVOLUTIONS)];
}

static int32_t uses_of(const finding *all, int ranks) {
  int32_t uses = 0;
  for (int r = 0; r < ranks; r++)
    uses |= all[r].uses;
  return uses;
}

static const char *others_of(int32_t uses) {
  return uses == BD_CUDA_DNN_ATTENTION ? "generated kernels" : "the program's own kernels";
}

static const char *version_name(int version, char *text, size_t bytes) {
  if (version)
    snprintf(text, bytes, "cuDNN %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
  else
    snprintf(text, bytes, "no cuDNN");
  return text;
}

static void say_off(const finding *all, int ranks, int first) {
  const int32_t uses = uses_of(all, ranks);
  char one[32], other[32];
  for (int r = first; r < ranks; r++) {
    const finding *const f = &all[r];
    if (!f->uses || f->version == all[first].version) continue;
    bd_rt_say("%s by %s: rank %d has %s, rank %d has %s: install the same on every machine",
              name_of(uses), others_of(uses), first,
              version_name(all[first].version, one, sizeof one), r,
              version_name(f->version, other, sizeof other));
    return;
  }
  bd_rt_say("%s by %s: %s", name_of(uses), others_of(uses), all[first].why);
}

static void say_on(const finding *all, int ranks, int version) {
  char name[32];
  const finding *refuses = NULL;
  const int32_t uses = uses_of(all, ranks);
  int planned = 0, refused = 0;
  for (int r = 0; r < ranks; r++) {
    planned += all[r].planned;
    refused += all[r].refused;
    if (!refuses && all[r].refused) refuses = &all[r];
  }
  if (!refuses)
    bd_rt_say("%s by %s", name_of(uses), version_name(version, name, sizeof name));
  else
    bd_rt_say("%s by %s for %d of %d shapes, the others by %s: %s", name_of(uses),
              version_name(version, name, sizeof name), planned, planned + refused, others_of(uses),
              refuses->why);
}

// Whether cuDNN is to be used nowhere.
static int32_t is_off(const finding *all, int ranks) {
  int32_t off = 0;
  int first = -1;
  for (int r = 0; r < ranks; r++) {
    if (!all[r].uses) continue;
    if (first < 0) first = r;
    off |= !all[r].version || all[r].version != all[first].version;
  }
  if (first < 0) return 0;
  if (off)
    say_off(all, ranks, first);
  else
    say_on(all, ranks, all[first].version);
  return off;
}

void bd_cuda_agree_dnn(bd_rt *rt) {
  bd_meeting *const meeting = rt->device->meeting;
  finding *const all = bd_rt_allocate(rt->rank == 0 ? (size_t)rt->ranks : 1, sizeof *all),
                 own = {0};
  int32_t off = 0;
  if (rt->device->dnn) own = rt->device->dnn->found;
  if (bd_meeting_gather(meeting, &own, sizeof own, all)) bd_cuda_leave_early(rt);
  if (rt->rank == 0) off = is_off(all, rt->ranks);
  free(all);
  if (bd_meeting_broadcast(meeting, &off, sizeof off)) bd_cuda_leave_early(rt);
  if (off) bd_cuda_release_dnn(rt);
}

void bd_cuda_release_dnn(bd_rt *rt) {
  bd_cuda_release_attention(rt);
  bd_cuda_release_convolutions(rt);
  if (rt->device->dnn) bd_dnn_close(rt->device->dnn->library);
  free(rt->device->dnn);
  rt->device->dnn = NULL;
}
