// Start and end of a rank.
#include "runtime/cuda/fresh.h"
#include "runtime/cuda/grouping.h"
#include "runtime/cuda/tune.h"
#include "runtime/deferred.h"
#include "runtime/overlap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int bd_rt_start(bd_rt *rt, int argc, char **argv) {
  (void)argc, (void)argv;
  char message[1024] = "";
  // Of streams that share a queue of the device one may wait for another's messages, and what is in
  // the environment may be meant for other programs; the driver reads it when it starts.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  rt->device = calloc(1, sizeof *rt->device);
  if (!rt->device) {
    bd_rt_say("out of memory");
    return BD_RT_EXIT_EXTERNAL;
  }
  const int status = bd_launcher_read(&rt->device->launcher, message, sizeof message);
  if (status) {
    bd_rt_say("%s", message);
    free(rt->device);
    return status;
  }
  rt->rank = rt->device->launcher.rank;
  rt->ranks = rt->device->launcher.ranks;
  return 0;
}

void bd_rt_stop(bd_rt *rt) {
  bd_watchdog_stop(rt->device->watchdog);
  bd_cuda_enter(NULL);
  bd_meeting_leave(rt->device->meeting);
  free(rt->device);
}

// Ranks of one job run one program; its numbers stand for it.
static uint64_t cookie_of(const bd_rt *rt) {
  const bd_rt_program *const p = rt->program;
  uint64_t hash = rt->device->launcher.job;
  hash = bd_launcher_hash(hash, p->model, strlen(p->model));
  hash = bd_launcher_hash(hash, p->mesh, sizeof p->mesh);
  const int64_t numbers[] = {p->version,      p->stages,           p->axes,     p->zero_axes,
                             p->global_batch, p->micro_batch,      p->sequence, p->optimizer,
                             p->tensors,      p->device_code_bytes};
  hash = bd_launcher_hash(hash, numbers, sizeof numbers);
  for (int s = 0; s < p->stages; s++)
    hash = bd_launcher_hash(hash, &p->stage[s].arena_bytes, sizeof p->stage[s].arena_bytes);
  return hash;
}

static int join(bd_rt *rt) {
  const bd_launcher *const launcher = &rt->device->launcher;
  const bd_meeting_place place = {.host = launcher->host,
                                  .port = launcher->port,
                                  .cookie = cookie_of(rt),
                                  .rank = rt->rank,
                                  .ranks = rt->ranks,
                                  .seconds = launcher->join_seconds};
  char message[1024] = "";
  const int status = bd_meeting_join(&place, &rt->device->meeting, message, sizeof message);
  if (message[0]) bd_rt_say("%s", message);
  if (status) return status;
  bd_cuda_enter(rt);
  rt->device->watchdog = bd_watchdog_start(rt);
  return 0;
}

// Walks a step and its end once without doing it.
static int rehearse(bd_rt *rt, char *message, size_t message_bytes) {
  const bd_rt_stage *const stage = rt->stage;
  rt->device->rehearsing = 1;
  bd_cuda_fresh_open(rt);
  if (stage->step) stage->step(rt);
  bd_rt_update(rt);
  bd_rt_deferred_finish(rt);
  rt->device->rehearsing = 0;
  if (rt->device->send_used > stage->send_bytes) {
    snprintf(message, message_bytes, "messages need %lld bytes of the arena, which has %lld",
             (long long)rt->device->send_used, (long long)stage->send_bytes);
    return BD_RT_EXIT_INTERNAL;
  }
  bd_cuda_prepare_pipes(rt);
  return bd_cuda_prepare_reader(rt, message, message_bytes);
}

int bd_rt_open(bd_rt *rt) {
  char message[1024] = "";
  int status = join(rt);
  if (status) return status;
  bd_rt_overlap_open(rt);
  status = bd_rt_agree(rt, bd_cuda_choose(rt, message, sizeof message), message);
  if (!status) status = bd_cuda_compare(rt);
  if (!status) status = bd_rt_agree(rt, bd_cuda_allocate(rt, message, sizeof message), message);
  if (!status) bd_cuda_tune_open(rt);
  if (!status) status = bd_rt_agree(rt, rehearse(rt, message, sizeof message), message);
  if (status) return status;
  bd_cuda_agree_dnn(rt);
  bd_cuda_try_attention(rt);
  bd_cuda_try_convolutions(rt);
  status = bd_cuda_tune(rt);
  if (status) return status;
  bd_cuda_run_expected(rt);
  bd_cuda_agree_lines(rt);
  bd_cuda_connect(rt);
  bd_rt_zero(rt, rt->arena, rt->stage->arena_bytes);
  bd_rt_settle(rt);
  return 0;
}

void bd_rt_close(bd_rt *rt) {
  bd_rt_settle(rt);
  bd_rt_agree(rt, 0, ""); // none leaves while another still needs it
  bd_cuda_disconnect(rt);
  bd_cuda_release(rt);
  bd_watchdog_stop(rt->device->watchdog);
  rt->device->watchdog = NULL;
  bd_rt_agree(rt, 0, "");
}
