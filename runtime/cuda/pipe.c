// Between stages: a direction has streams of its own, so that what one stage computes never waits
// for another to receive.
#include "runtime/cuda/rt.h"
#include "runtime/profile.h"

#include <stdlib.h>

enum { GIVEN = -1 }; // the tag of what has none

static int64_t rounded(int64_t bytes) {
  return (bytes + BD_RT_ALIGNMENT - 1) / BD_RT_ALIGNMENT * BD_RT_ALIGNMENT;
}

static bd_cuda_outgoing *find_outgoing(bd_rt_device *device, int stage, int tag) {
  for (int i = 0; i < device->outgoing_count; i++)
    if (device->outgoing[i].stage == stage && device->outgoing[i].tag == tag)
      return &device->outgoing[i];
  return NULL;
}

// Both sides of a direction must have the same messages in the same order, and count the passes
// that send them alike.
static void note(bd_cuda_pipe *pipe, int tag, int64_t bytes, int64_t pass) {
  const int64_t message[3] = {tag, bytes, pass};
  pipe->used = 1;
  pipe->in_passes |= tag != GIVEN;
  pipe->order = bd_launcher_hash(pipe->order, message, sizeof message);
}

// Gives each stage and tag its place in the send segment.
static void note_send(bd_rt *rt, int stage, int tag, int64_t bytes) {
  bd_rt_device *const device = rt->device;
  bd_cuda_outgoing *slot = find_outgoing(device, stage, tag);
  note(&device->to[stage], tag, bytes, slot ? slot->passes++ : 0);
  if (slot && bytes > slot->bytes)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "messages of one stage and tag differ in size");
  if (slot) return;
  if (device->outgoing_count == BD_CUDA_MOST_OUTGOING)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "more than %d kinds of messages between stages",
               BD_CUDA_MOST_OUTGOING);
  const int copies = abs(stage - rt->stage_index);
  device->outgoing[device->outgoing_count++] =
      (bd_cuda_outgoing){.stage = stage,
                         .tag = tag,
                         .copies = copies,
                         .passes = 1,
                         .offset = rt->stage->send_offset + device->send_used,
                         .bytes = bytes};
  device->send_used += copies * rounded(bytes);
}

void bd_cuda_prepare_pipes(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  for (int i = 0; i < device->outgoing_count; i++) {
    bd_cuda_outgoing *const slot = &device->outgoing[i];
    slot->passes = 0;
    slot->sent = bd_rt_allocate((size_t)slot->copies, sizeof *slot->sent);
    for (int k = 0; k < slot->copies; k++)
      BD_CUDA(cudaEventCreateWithFlags(&slot->sent[k], cudaEventDisableTiming));
  }
  for (int from = 0; from < rt->program->stages; from++)
    device->from[from].passes = 0;
}

// The line that has the turn in a pass, counted from the first.
static bd_cuda_line *line_of(const bd_cuda_pipe *pipe, int64_t pass) {
  return &pipe->lines[pass % pipe->line_count];
}

// Work of the line's stream follows what the rank has computed.
static void follow(bd_rt *rt, bd_cuda_line *line) {
  BD_CUDA(cudaEventRecord(line->ready, bd_cuda_now(rt)->stream));
  BD_CUDA(cudaStreamWaitEvent(line->stream, line->ready, 0));
}

// What the rank computes next follows the line's work.
static void await(bd_rt *rt, bd_cuda_line *line) {
  BD_CUDA(cudaEventRecord(line->done, line->stream));
  BD_CUDA(cudaStreamWaitEvent(bd_cuda_now(rt)->stream, line->done, 0));
}

static void receive(bd_rt *rt, int stage, int tag, bd_cuda_line *line, void *data, int64_t bytes) {
  follow(rt, line);
  bd_rt_profile_message(rt, BD_RT_THREAD_RECEIVE, stage, tag, bytes, line->stream);
  BD_NCCL(rt, line->comm, ncclRecv(data, (size_t)bytes, ncclInt8, 0, line->comm, line->stream));
  bd_rt_profile_queued_end(rt, line->stream);
  await(rt, line);
}

void bd_rt_send(bd_rt *rt, int stage, int tag, const void *data, int64_t bytes) {
  bd_rt_device *const device = rt->device;
  if (bytes == 0) return;
  if (device->rehearsing) {
    note_send(rt, stage, tag, bytes);
    return;
  }
  bd_cuda_outgoing *const slot = find_outgoing(device, stage, tag);
  const int64_t pass = slot->passes++;
  const int next = (int)(pass % slot->copies); // the oldest copy
  char *const copy = rt->arena + slot->offset + next * rounded(slot->bytes);
  if (pass >= slot->copies)
    BD_CUDA(cudaStreamWaitEvent(bd_cuda_now(rt)->stream, slot->sent[next], 0));
  bd_rt_copy(rt, copy, data, bytes);
  device->letters[device->letter_count++] = (bd_cuda_letter){
      stage, tag, line_of(&device->to[stage], pass), copy, bytes, slot->sent[next]};
}

// All of a direction at once: behind one that waits for its receiver, another would not have begun,
// and nor would anything that is asked later; the receiver, which gets that first, may wait for it.
static void send_all(bd_rt *rt, int stage) {
  bd_rt_device *const device = rt->device;
  bd_cuda_line *line = NULL;
  int64_t bytes = 0;
  int tag = 0;
  for (int i = device->letter_count - 1; i >= 0; i--)
    if (device->letters[i].stage == stage) {
      bytes += device->letters[i].bytes;
      tag = device->letters[i].tag;
      line = device->letters[i].line;
    }
  if (bytes == 0) return;
  follow(rt, line);
  bd_rt_profile_message(rt, BD_RT_THREAD_SEND, stage, tag, bytes, line->stream);
  bd_cuda_accept(rt, ncclGroupStart(), "ncclGroupStart");
  for (int i = 0; i < device->letter_count; i++)
    if (device->letters[i].stage == stage)
      bd_cuda_accept(rt,
                     ncclSend(device->letters[i].copy, (size_t)device->letters[i].bytes, ncclInt8,
                              1, line->comm, line->stream),
                     "ncclSend");
  BD_NCCL(rt, line->comm, ncclGroupEnd());
  bd_rt_profile_queued_end(rt, line->stream);
  for (int i = 0; i < device->letter_count; i++)
    if (device->letters[i].stage == stage)
      BD_CUDA(cudaEventRecord(device->letters[i].sent, line->stream));
}

void bd_rt_post(bd_rt *rt) {
  for (int stage = 0; stage < rt->program->stages; stage++)
    send_all(rt, stage);
  rt->device->letter_count = 0;
}

// The messages of a pass from one stage begin with one tag.
static int64_t pass_of(bd_cuda_pipe *pipe, int tag) {
  if (!pipe->in_passes) pipe->first_tag = tag;
  pipe->passes += tag == pipe->first_tag;
  return pipe->passes - 1;
}

void bd_rt_recv(bd_rt *rt, int stage, int tag, void *data, int64_t bytes) {
  if (bytes == 0) return;
  bd_cuda_pipe *const pipe = &rt->device->from[stage];
  const int64_t pass = pass_of(pipe, tag);
  if (rt->device->rehearsing)
    note(pipe, tag, bytes, pass);
  else
    receive(rt, stage, tag, line_of(pipe, pass), data, bytes);
}

void bd_rt_give(bd_rt *rt, int stage, const void *data, int64_t bytes) {
  bd_cuda_pipe *const pipe = &rt->device->to[stage];
  if (rt->device->rehearsing) {
    note(pipe, GIVEN, bytes, 0);
    return;
  }
  bd_cuda_line *const line = line_of(pipe, 0);
  follow(rt, line);
  bd_rt_profile_message(rt, BD_RT_THREAD_SEND, stage, GIVEN, bytes, line->stream);
  BD_NCCL(rt, line->comm, ncclSend(data, (size_t)bytes, ncclInt8, 1, line->comm, line->stream));
  bd_rt_profile_queued_end(rt, line->stream);
  await(rt, line);
}

void bd_rt_take(bd_rt *rt, int stage, void *data, int64_t bytes) {
  bd_cuda_pipe *const pipe = &rt->device->from[stage];
  if (rt->device->rehearsing)
    note(pipe, GIVEN, bytes, 0);
  else
    receive(rt, stage, GIVEN, line_of(pipe, 0), data, bytes);
}
