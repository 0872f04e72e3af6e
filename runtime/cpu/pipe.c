// Between stages: copied sends, blocking receives.
#include "runtime/cpu/rt.h"
#include "runtime/profile.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const int64_t message_bytes = INT64_C(1) << 30;

static int peer(const bd_rt *rt, int stage) {
  return stage * rt->devices + rt->mesh_rank;
}

static bd_rt_outgoing *find_outgoing(bd_rt *rt, int stage, int tag) {
  for (int i = 0; i < rt->device->outgoing_count; i++)
    if (rt->device->outgoing[i].stage == stage && rt->device->outgoing[i].tag == tag)
      return &rt->device->outgoing[i];
  if (rt->device->outgoing_count == BD_RT_MAX_OUTGOING)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "more than %d kinds of messages between stages",
               BD_RT_MAX_OUTGOING);
  bd_rt_outgoing *const slot = &rt->device->outgoing[rt->device->outgoing_count++];
  *slot = (bd_rt_outgoing){.stage = stage, .tag = tag, .copies = abs(stage - rt->stage_index)};
  slot->copy = bd_rt_allocate((size_t)slot->copies, sizeof *slot->copy);
  for (int i = 0; i < slot->copies; i++)
    slot->copy[i].request = MPI_REQUEST_NULL;
  return slot;
}

// The oldest copy, when it has been received.
static bd_rt_copy_out *take_copy(bd_rt_outgoing *slot, int64_t bytes) {
  bd_rt_copy_out *const copy = &slot->copy[slot->next];
  slot->next = (slot->next + 1) % slot->copies;
  MPI_Wait(&copy->request, MPI_STATUS_IGNORE);
  if (copy->capacity >= bytes) return copy;
  if (copy->data) munmap(copy->data, (size_t)copy->capacity);
  copy->data = bd_rt_pages(bytes);
  copy->capacity = bytes;
  return copy;
}

void bd_rt_close_pipes(bd_rt *rt) {
  for (int i = 0; i < rt->device->outgoing_count; i++) {
    bd_rt_outgoing *const slot = &rt->device->outgoing[i];
    for (int k = 0; k < slot->copies; k++) {
      MPI_Wait(&slot->copy[k].request, MPI_STATUS_IGNORE);
      if (slot->copy[k].data) munmap(slot->copy[k].data, (size_t)slot->copy[k].capacity);
    }
    free(slot->copy);
  }
}

void bd_rt_send(bd_rt *rt, int stage, int tag, const void *data, int64_t bytes) {
  bd_rt_outgoing *const slot = find_outgoing(rt, stage, tag);
  bd_rt_profile_message(rt, BD_RT_THREAD_SEND, stage, tag, bytes, NULL);
  bd_rt_copy_out *const copy = take_copy(slot, bytes);
  memcpy(copy->data, data, (size_t)bytes);
  int64_t done = 0;
  for (; bytes - done > message_bytes; done += message_bytes)
    MPI_Send((char *)copy->data + done, (int)message_bytes, MPI_BYTE, peer(rt, stage), tag,
             rt->device->pipe);
  MPI_Isend((char *)copy->data + done, (int)(bytes - done), MPI_BYTE, peer(rt, stage), tag,
            rt->device->pipe, &copy->request);
  bd_rt_profile_queued_end(rt, NULL);
}

void bd_rt_post(bd_rt *rt) {
  (void)rt;
}

void bd_rt_recv(bd_rt *rt, int stage, int tag, void *data, int64_t bytes) {
  bd_rt_profile_message(rt, BD_RT_THREAD_RECEIVE, stage, tag, bytes, NULL);
  for (int64_t done = 0; done < bytes; done += message_bytes) {
    const int64_t piece = bytes - done < message_bytes ? bytes - done : message_bytes;
    MPI_Recv((char *)data + done, (int)piece, MPI_BYTE, peer(rt, stage), tag, rt->device->pipe,
             MPI_STATUS_IGNORE);
  }
  bd_rt_profile_queued_end(rt, NULL);
}

enum { GIVE_TAG = 2 }; // on the world's communicator, which no other message of a step uses

void bd_rt_give(bd_rt *rt, int stage, const void *data, int64_t bytes) {
  MPI_Send(data, (int)bytes, MPI_BYTE, peer(rt, stage), GIVE_TAG, MPI_COMM_WORLD);
}

void bd_rt_take(bd_rt *rt, int stage, void *data, int64_t bytes) {
  MPI_Recv(data, (int)bytes, MPI_BYTE, peer(rt, stage), GIVE_TAG, MPI_COMM_WORLD,
           MPI_STATUS_IGNORE);
}
