// How a rank ends before its time. The ranks say once why: who fails first says it, the others hear
// of it over the meeting and end without a word.
#include "runtime/cuda/rt.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOOKS = 20, LOOK_NANOSECONDS = 50000000 };

static const bd_rt *own; // this process's rank, while it is among others

// Held to the end of the process by the thread that ends it: the rank's own, or its watchdog.
static pthread_mutex_t ending = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void bd_cuda_enter(const bd_rt *rt) {
  own = rt;
}

void bd_rt_abort(int status) {
  pthread_mutex_lock(&ending);
  if (own) bd_meeting_end(own->device->meeting, status);
  _exit(status);
}

// That rank 0 has ended all ranks see, and there is nobody to ask who says it: rank 1 does. It may
// have ended too, so that one rank of each other machine says what came of it.
static void say_reason(const bd_rt *rt, const char *reason, int status) {
  if (rt->rank < 2 || status != BD_RT_EXIT_DEAD_RANK)
    bd_rt_say("%s", reason);
  else if (rt->device->launcher.local_rank == 0)
    bd_rt_say("rank %d ends too: %s", rt->rank, reason);
}

void bd_cuda_leave_early(const bd_rt *rt) {
  pthread_mutex_lock(&ending);
  const int known = bd_meeting_watch(rt->device->meeting);
  const int status = known ? known : BD_RT_EXIT_DEAD_RANK;
  const char *const reason = bd_meeting_reason(rt->device->meeting);
  if (reason[0]) say_reason(rt, reason, status);
  bd_rt_abort(status);
}

void bd_rt_claim(int status) {
  pthread_mutex_lock(&ending);
  if (own && bd_meeting_claim(own->device->meeting, status)) bd_cuda_leave_early(own);
}

// NCCL takes memory beside the arena, how much it does not tell beforehand.
static void fail_for_memory(const bd_rt *rt, const char *why) {
  size_t available = 0, total = 0;
  (void)cudaMemGetInfo(&available, &total);
  bd_rt_fail(BD_RT_EXIT_MACHINE,
             "NCCL finds too little memory on the GPU of rank %d, which has %zu of %zu bytes free "
             "beside the arena of %lld (%s): end what else holds some (nvidia-smi lists it), or "
             "compile with a lower --memory-cap",
             rt->rank, available, total, (long long)rt->stage->arena_bytes, why);
}

// A rank that ended says more than the connection that it took with it, of which NCCL may tell
// first.
void bd_cuda_fail_nccl(bd_rt *rt, ncclResult_t error, const char *call) {
  const char *const why = ncclGetLastError(NULL);
  for (int i = 0; i < LOOKS; i++) {
    if (bd_meeting_watch(rt->device->meeting)) bd_cuda_leave_early(rt);
    nanosleep(&(struct timespec){.tv_nsec = LOOK_NANOSECONDS}, NULL);
  }
  if (strstr(why, "out of memory")) fail_for_memory(rt, why);
  bd_rt_fail(error == ncclRemoteError ? BD_RT_EXIT_DEAD_RANK : BD_RT_EXIT_EXTERNAL,
             "NCCL failed on rank %d: %s, in %.*s%s%s; NCCL_DEBUG=WARN makes it say more", rt->rank,
             ncclGetErrorString(error), (int)strcspn(call, "("), call, why[0] ? ": " : "", why);
}

static void expect_sound(bd_rt *rt, ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  if (!comm) return;
  const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
  if (asked != ncclSuccess) state = asked;
  if (state != ncclSuccess && state != ncclInProgress)
    bd_cuda_fail_nccl(rt, state, "what a step exchanges");
}

static void expect_sound_lines(bd_rt *rt, const bd_cuda_pipe *pipe) {
  for (int k = 0; k < pipe->line_count; k++)
    expect_sound(rt, pipe->lines[k].comm);
}

void bd_cuda_watch(bd_rt *rt) {
  const bd_rt_device *const device = rt->device;
  if (bd_meeting_watch(device->meeting)) bd_cuda_leave_early(rt);
  for (int l = 0; l < BD_CUDA_STREAMS; l++)
    for (int mask = 0; mask < BD_RT_GROUPS; mask++)
      expect_sound(rt, device->lanes[l].comm[mask]);
  for (int s = 0; s < rt->program->stages; s++) {
    if (device->to) expect_sound_lines(rt, &device->to[s]);
    if (device->from) expect_sound_lines(rt, &device->from[s]);
  }
}
