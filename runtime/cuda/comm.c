// Communicators: one per group of ranks and one per direction between two stages, made before the
// first step for what the step uses.
#include "runtime/cuda/rt.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WATCH_TURNS = 256 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void bd_cuda_accept(bd_rt *rt, ncclResult_t result, const char *call) {
  if (result != ncclSuccess && result != ncclInProgress) bd_cuda_fail_nccl(rt, result, call);
}

// Not every call says that it is in progress: ncclCommWindowRegister of NCCL 2.28 succeeds at once
// and writes the window later. So the communicator is always asked.
void bd_cuda_finish(bd_rt *rt, ncclComm_t comm, ncclResult_t result, const char *call) {
  if (result == ncclSuccess) result = ncclInProgress;
  for (int64_t turn = 1; result == ncclInProgress && !rt->device->in_group; turn++) {
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &result);
    if (asked != ncclSuccess) result = asked;
    if (turn % WATCH_TURNS == 0) bd_cuda_watch(rt);
    if (result == ncclInProgress) sched_yield();
  }
  bd_cuda_accept(rt, result, call);
}

// The group's axes that have more than one rank.
static int mask_of(const bd_rt *rt, const bd_rt_group *group) {
  int mask = group->mask;
  for (int a = 0; a < BD_RT_MAX_AXES; a++)
    if (a >= rt->program->axes || rt->program->mesh[a] == 1) mask &= ~(1 << a);
  return mask;
}

ncclComm_t bd_cuda_comm(bd_rt *rt, const bd_rt_group *group) {
  const int mask = mask_of(rt, group);
  bd_rt_device *const device = rt->device;
  bd_cuda_lane *const lanes = device->lanes;
  bd_cuda_lane *const lane = &lanes[device->lane == BD_CUDA_ASIDE ? BD_CUDA_ASIDE : BD_CUDA_MAIN];
  if (device->rehearsing) {
    lane->used_masks |= 1u << mask;
    return NULL;
  }
  if (device->lane == BD_CUDA_BESIDE)
    device->beside_masks |= 1u << mask;
  else if (device->lane == BD_CUDA_MAIN && device->beside_masks >> mask & 1)
    bd_cuda_await_beside(rt);
  // Outside of steps, where nothing runs beside, either lane's will do.
  return lane->comm[mask] ? lane->comm[mask] : lanes[BD_CUDA_ASIDE].comm[mask];
}

// What a rank makes ids for: groups of which it is the first, then lines to the stages it sends to.
// What it gets back: the ids of its groups, then of lines from the stages it receives from. Those
// of lines lie behind the stages.
typedef struct peer {
  uint64_t sent, received;            // see bd_cuda_pipe
  int32_t lines;                      // to this stage
  int32_t first_sent, first_received; // among the row's lines to, and from, all stages
  int32_t unused;
} peer;
typedef struct ids {
  ncclUniqueId of_mask[BD_CUDA_STREAMS][BD_RT_GROUPS];
  peer of_stage[];
} ids;

static size_t bytes_of(const bd_rt *rt) {
  return sizeof(ids) + (size_t)rt->program->stages * sizeof(peer) +
         (size_t)rt->device->most_lines * sizeof(ncclUniqueId);
}

static ids *row_of(const bd_rt *rt, void *all, int rank) {
  return (ids *)(void *)((char *)all + (size_t)rank * bytes_of(rt));
}

static ncclUniqueId *lines_of(const bd_rt *rt, ids *row) {
  return (ncclUniqueId *)(void *)(row->of_stage + rt->program->stages);
}

static void make_ids(bd_rt *rt, ids *own) {
  bd_rt_device *const device = rt->device;
  for (int l = 0; l < BD_CUDA_STREAMS; l++)
    for (int mask = 1; mask < BD_RT_GROUPS; mask++)
      if (device->lanes[l].used_masks >> mask & 1 && rt->group[mask].rank == 0)
        bd_cuda_accept(rt, ncclGetUniqueId(&own->of_mask[l][mask]), "ncclGetUniqueId");
  int sent = 0, received = 0;
  for (int s = 0; s < rt->program->stages; s++) {
    const bd_cuda_pipe *const to = &device->to[s], *const from = &device->from[s];
    own->of_stage[s] = (peer){.sent = to->order,
                              .received = from->order,
                              .lines = to->line_count,
                              .first_sent = sent,
                              .first_received = received};
    for (int k = 0; k < to->line_count; k++) {
      bd_cuda_accept(rt, ncclGetUniqueId(&to->lines[k].id), "ncclGetUniqueId");
      lines_of(rt, own)[sent++] = to->lines[k].id;
    }
    received += from->line_count;
  }
}

int bd_cuda_first_of_group(const bd_rt *rt, int rank, int mask) {
  const bd_rt_program *const program = rt->program;
  int stride = 1, first = rank, rest = rank % rt->devices;
  for (int a = program->axes - 1; a >= 0; a--) {
    if (mask >> a & 1) first -= rest % program->mesh[a] * stride;
    rest /= program->mesh[a];
    stride *= program->mesh[a];
  }
  return first;
}

static void deal_lines(const bd_rt *rt, void *made, int from, int to, ids *out) {
  ids *const sender = row_of(rt, made, from);
  const peer *const sends = &sender->of_stage[to / rt->devices];
  const peer *const receives = &row_of(rt, made, to)->of_stage[from / rt->devices];
  if (sends->sent != receives->received)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "ranks %d and %d disagree on the messages between them", from,
               to);
  for (int k = 0; k < sends->lines; k++)
    lines_of(rt, out)[receives->first_received + k] = lines_of(rt, sender)[sends->first_sent + k];
}

static void deal_ids(const bd_rt *rt, void *made, void *dealt) {
  for (int r = 0; r < rt->ranks; r++) {
    ids *const out = row_of(rt, dealt, r);
    for (int mask = 0; mask < 1 << rt->program->axes; mask++)
      for (int l = 0; l < BD_CUDA_STREAMS; l++)
        out->of_mask[l][mask] =
            row_of(rt, made, bd_cuda_first_of_group(rt, r, mask))->of_mask[l][mask];
    for (int s = 0; s < rt->program->stages; s++)
      deal_lines(rt, made, s * rt->devices + r % rt->devices, r, out);
  }
}

static ids *exchange_ids(bd_rt *rt) {
  const size_t rows = rt->rank == 0 ? (size_t)rt->ranks : 1;
  ids *const own = bd_rt_allocate(1, bytes_of(rt));
  void *const made = bd_rt_allocate(rows, bytes_of(rt));
  void *const dealt = bd_rt_allocate(rows, bytes_of(rt));
  make_ids(rt, own);
  if (bd_meeting_gather(rt->device->meeting, own, bytes_of(rt), made)) bd_cuda_leave_early(rt);
  if (rt->rank == 0) deal_ids(rt, made, dealt);
  if (bd_meeting_scatter(rt->device->meeting, dealt, bytes_of(rt), own)) bd_cuda_leave_early(rt);
  free(made);
  free(dealt);
  return own;
}

ncclComm_t bd_cuda_open_comm(bd_rt *rt, ncclUniqueId id, int ranks, int rank, ncclConfig_t config) {
  ncclComm_t comm = NULL;
  config.blocking = 0;
  const double deadline = now() + rt->device->launcher.join_seconds;
  ncclResult_t result = ncclCommInitRankConfig(&comm, ranks, id, rank, &config);
  if (result == ncclSuccess) result = ncclInProgress; // as in bd_cuda_finish
  while (result == ncclInProgress) {
    if (ncclCommGetAsyncError(comm, &result) != ncclSuccess) result = ncclInternalError;
    if (now() > deadline)
      bd_rt_fail(BD_RT_EXIT_DEAD_RANK,
                 "NCCL does not connect rank %d with the other ranks of a group of %d within %d "
                 "seconds: NCCL_DEBUG=INFO makes it say which network it takes, "
                 "BRAID_JOIN_SECONDS sets the time",
                 rt->rank, ranks, rt->device->launcher.join_seconds);
    bd_cuda_watch(rt);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  bd_cuda_accept(rt, result, "ncclCommInitRankConfig");
  return comm;
}

// Beside other work copy engines gather, which leave it all multiprocessors.
static void open_lane(bd_rt *rt, int number, const ncclUniqueId *of_mask) {
  bd_cuda_lane *const lane = &rt->device->lanes[number];
  for (int mask = 1; mask < BD_RT_GROUPS; mask++) {
    if (!(lane->used_masks >> mask & 1)) continue;
    const bd_rt_group *const group = &rt->group[mask];
    const int window = bd_cuda_has_window(rt, mask);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (window && number == BD_CUDA_ASIDE) bd_cuda_prefer_copy_engines(rt, group->size, &config);
    lane->comm[mask] = bd_cuda_open_comm(rt, of_mask[mask], group->size, group->rank, config);
    lane->grant[mask] = bd_cuda_grant_arena(rt, lane->comm[mask], window);
  }
}

// All ranks open theirs in one order, by lane and mask and then by sender and receiver, so that
// nobody waits for a rank that waits elsewhere. Work of different communicators is told in one
// order too, which NCCL then keeps on the device, where it can.
void bd_cuda_connect(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  const int stages = rt->program->stages, own = rt->stage_index;
  // Before NCCL has threads, which read the environment.
  if (device->keeps_order) setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
  ids *const mine = exchange_ids(rt);
  for (int l = 0; l < BD_CUDA_STREAMS; l++)
    open_lane(rt, l, mine->of_mask[l]);
  const ncclUniqueId *line = lines_of(rt, mine);
  for (int from = 0; from < stages; from++)
    for (int k = 0; k < device->from[from].line_count; k++)
      device->from[from].lines[k].id = *line++;
  for (int from = 0; from < stages; from++)
    for (int to = 0; to < stages; to++) {
      if (from == own) bd_cuda_open_lines(rt, &device->to[to], 1);
      if (to == own) bd_cuda_open_lines(rt, &device->from[from], 0);
    }
  free(mine);
}

// One that is gone must not be asked any more how it is (bd_cuda_watch).
void bd_cuda_close_comm(bd_rt *rt, ncclComm_t *comm, bd_cuda_grant grant) {
  if (!*comm) return;
  bd_cuda_revoke_arena(rt, *comm, grant);
  BD_NCCL(rt, *comm, ncclCommFinalize(*comm));
  bd_cuda_accept(rt, ncclCommDestroy(*comm), "ncclCommDestroy");
  *comm = NULL;
}

void bd_cuda_disconnect(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  const int stages = rt->program->stages, own = rt->stage_index;
  for (int l = 0; l < BD_CUDA_STREAMS; l++)
    for (int mask = 1; mask < BD_RT_GROUPS; mask++)
      bd_cuda_close_comm(rt, &device->lanes[l].comm[mask], device->lanes[l].grant[mask]);
  for (int from = 0; from < stages; from++)
    for (int to = 0; to < stages; to++) {
      if (from == own) bd_cuda_close_lines(rt, &device->to[to]);
      if (to == own) bd_cuda_close_lines(rt, &device->from[from]);
    }
  if (device->receives) BD_CUDA(cudaStreamDestroy(device->receives));
  for (int i = 0; i < device->outgoing_count; i++) {
    for (int k = 0; k < device->outgoing[i].copies; k++)
      BD_CUDA(cudaEventDestroy(device->outgoing[i].sent[k]));
    free(device->outgoing[i].sent);
  }
}
