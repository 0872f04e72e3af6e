// Lines between stages: a communicator each, several for a direction that goes over stages, and
// for what is sent a stream. What is received has one for all lines, since the rank's own stream
// waits for each before it asks for the next: a device has few queues for streams, and one that
// lies behind another in a queue may wait for it.
//
// What is asked later begins, on the device, when what was asked before has begun. So nothing may
// be asked that has to wait for another stage before it begins: a message that waited in its line
// for the one before to be received would hold up what that stage, or the other ranks of this one,
// wait for. A message finds its line empty, because the rank's own stream, before it copies what is
// to be sent, waits for what was sent from there as many passes ago as there are lines.
#include "runtime/cuda/rt.h"

#include <stdlib.h>

enum { PIPE_BLOCKS = 8 }; // of all lines of a direction, which may wait for their receiver at once

// As many as it would have by itself.
static int lines_of(const bd_rt *rt, const bd_cuda_pipe *pipe, int stage) {
  return pipe->in_passes ? abs(stage - rt->stage_index) : pipe->used;
}

// The most that a rank of the job would have; more than any may where one would have too many.
static int most_wanted(bd_rt *rt, int wanted) {
  bd_meeting *const meeting = rt->device->meeting;
  const int32_t own =
      wanted > rt->device->launcher.most_lines ? BD_LAUNCHER_MOST_LINES + 1 : wanted;
  int32_t *const all = bd_rt_allocate(rt->rank == 0 ? (size_t)rt->ranks : 1, sizeof *all), most = 0;
  if (bd_meeting_gather(meeting, &own, sizeof own, all)) bd_cuda_leave_early(rt);
  for (int r = 0; rt->rank == 0 && r < rt->ranks; r++)
    if (all[r] > most) most = all[r];
  free(all);
  if (bd_meeting_broadcast(meeting, &most, sizeof most)) bd_cuda_leave_early(rt);
  return most;
}

static void add_lines(bd_cuda_pipe *pipe, int count) {
  pipe->line_count = count;
  if (count) pipe->lines = bd_rt_allocate((size_t)count, sizeof *pipe->lines);
}

void bd_cuda_agree_lines(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  int own = 0, used = 0;
  for (int s = 0; s < rt->program->stages; s++) {
    own += lines_of(rt, &device->to[s], s) + lines_of(rt, &device->from[s], s);
    used += device->to[s].used + device->from[s].used;
  }
  const int most = most_wanted(rt, own);
  const int several = device->keeps_order && most <= BD_LAUNCHER_MOST_LINES;
  device->most_lines = several ? most : 2 * rt->program->stages;
  if (!several && own > used) device->keeps_order = 0;
  for (int s = 0; s < rt->program->stages; s++) {
    add_lines(&device->to[s], several ? lines_of(rt, &device->to[s], s) : device->to[s].used);
    add_lines(&device->from[s], several ? lines_of(rt, &device->from[s], s) : device->from[s].used);
  }
}

// NCCL connects two ranks at their first message, and the call of neither is over before the other
// has made its own. Were that in a step, two stages that send to each other first would wait for
// ever; so a byte, which means nothing, goes before all others.
static void greet(bd_rt *rt, const bd_cuda_line *line, int sends) {
  if (sends)
    BD_NCCL(rt, line->comm, ncclSend(rt->arena, 1, ncclInt8, 1, line->comm, line->stream));
  else
    BD_NCCL(rt, line->comm, ncclRecv(rt->arena, 1, ncclInt8, 0, line->comm, line->stream));
  bd_cuda_settle(rt, line->stream);
}

static cudaStream_t open_stream(void) {
  cudaStream_t stream;
  bd_cuda_open_stream(&stream, 1);
  return stream;
}

static cudaStream_t receiving_stream(bd_rt_device *device) {
  if (!device->receives) device->receives = open_stream();
  return device->receives;
}

void bd_cuda_open_lines(bd_rt *rt, bd_cuda_pipe *pipe, int sends) {
  for (int k = 0; k < pipe->line_count; k++) {
    bd_cuda_line *const line = &pipe->lines[k];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.maxCTAs = pipe->line_count < PIPE_BLOCKS ? PIPE_BLOCKS / pipe->line_count : 1;
    line->comm = bd_cuda_open_comm(rt, line->id, 2, sends ? 0 : 1, config);
    line->grant = bd_cuda_grant_arena(rt, line->comm, 0);
    line->stream = sends ? open_stream() : receiving_stream(rt->device);
    BD_CUDA(cudaEventCreateWithFlags(&line->ready, cudaEventDisableTiming));
    BD_CUDA(cudaEventCreateWithFlags(&line->done, cudaEventDisableTiming));
    greet(rt, line, sends);
  }
}

void bd_cuda_close_lines(bd_rt *rt, bd_cuda_pipe *pipe) {
  for (int k = 0; k < pipe->line_count; k++) {
    bd_cuda_line *const line = &pipe->lines[k];
    bd_cuda_close_comm(rt, &line->comm, line->grant);
    if (line->stream != rt->device->receives) BD_CUDA(cudaStreamDestroy(line->stream));
    BD_CUDA(cudaEventDestroy(line->ready));
    BD_CUDA(cudaEventDestroy(line->done));
  }
  free(pipe->lines);
  pipe->line_count = 0;
}
