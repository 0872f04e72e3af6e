// Communicators and groups.
#include "tests/device/fake/device.h"
#include "tests/device/fake/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { MAX_GROUP = 4096, PEER_WATCH = 256 };

// Exchanges of one communicator and stream that were called together.
typedef struct work {
  struct ncclComm *comm;
  uint64_t ticket;
  int count;
  bd_fake_exchange exchanges[];
} work;

static _Thread_local int group_depth, group_count;
static _Thread_local bd_fake_exchange *group;

static struct ncclComm *comm_of(const char *call, ncclComm_t comm) {
  if (!comm || !comm->alive) bd_fake_fault(call, "%p is no communicator", (void *)comm);
  return comm;
}

// Now and then, while peers are waited for: those that have died are an error of the communicator,
// those that have left it did not make this call.
static void watch_peers(const work *w) {
  if (++w->comm->waits % PEER_WATCH) return;
  for (int r = 0; r < w->comm->wire.ranks; r++)
    for (int i = 0; i < w->count; i++) {
      if (!bd_fake_exchange_awaits(&w->exchanges[i], r)) continue;
      if (w->comm->wire.shared->member[r].left)
        bd_fake_fault(w->exchanges[i].call, "rank %d has left the communicator", r);
      if (bd_fake_wire_is_dead(&w->comm->wire, r)) w->comm->error = ncclRemoteError;
    }
}

// Collectives run one after another; messages side by side, because a receive may be what the peer
// needs before it takes a send.
static int run(void *args) {
  work *const w = *(work **)args;
  struct ncclComm *const comm = w->comm;
  int left = 0, collective = 0;
  if (comm->finished != w->ticket) return 0;
  for (int i = 0; i < w->count && !comm->aborted; i++) {
    bd_fake_exchange *const e = &w->exchanges[i];
    const int message = e->kind == BD_FAKE_SEND || e->kind == BD_FAKE_RECV;
    if (e->state == 2 || (!message && collective)) continue;
    if (bd_fake_exchange_step(e))
      e->state = 2;
    else
      left++, collective |= !message;
  }
  if (left && !comm->aborted) {
    watch_peers(w);
    return 0;
  }
  comm->finished++;
  free(w);
  return 1;
}

static void issue(bd_fake_exchange *exchanges, int count) {
  work *const w = malloc(sizeof *w + (size_t)count * sizeof *exchanges);
  if (!w) abort();
  w->comm = exchanges[0].comm;
  w->ticket = w->comm->issued++;
  w->count = count;
  memcpy(w->exchanges, exchanges, (size_t)count * sizeof *exchanges);
  bd_fake_enqueue(exchanges[0].call, exchanges[0].stream, run, &w, sizeof w);
}

static ncclResult_t add(bd_fake_exchange exchange) {
  comm_of(exchange.call, exchange.comm);
  bd_fake_exchange_check(&exchange);
  if (exchange.kind == BD_FAKE_SEND || exchange.kind == BD_FAKE_RECV)
    bd_fake_count.messages++;
  else
    bd_fake_count.collectives++;
  if (!group_depth) {
    issue(&exchange, 1);
    return ncclSuccess;
  }
  if (!group) group = malloc(MAX_GROUP * sizeof *group);
  if (!group || group_count == MAX_GROUP) bd_fake_fault(exchange.call, "the group is too large");
  group[group_count++] = exchange;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart(void) {
  group_depth++;
  return ncclSuccess;
}

// What was called for one communicator and stream becomes one piece of work.
ncclResult_t ncclGroupEnd(void) {
  if (!group_depth) bd_fake_fault(__func__, "no group was started");
  if (--group_depth) return ncclSuccess;
  bd_fake_exchange *const same = malloc(((size_t)group_count + 1) * sizeof *same);
  if (!same) abort();
  for (int i = 0; i < group_count; i++) {
    const bd_fake_exchange first = group[i];
    int count = 0;
    for (int k = i; k < group_count && first.comm; k++)
      if (group[k].comm == first.comm && group[k].stream == first.stream) {
        same[count++] = group[k];
        group[k].comm = NULL;
      }
    if (count) issue(same, count);
  }
  free(same);
  group_count = 0;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  uint64_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number) abort();
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "%016llx", (unsigned long long)number);
  bd_fake_wire_create(__func__, id->internal);
  return ncclSuccess;
}

static struct ncclComm *join(const char *call, const char *id, int ranks, int rank) {
  struct ncclComm *const comm = calloc(1, sizeof *comm);
  if (!comm) abort();
  comm->alive = 1;
  comm->wire = (bd_fake_wire){.ranks = ranks, .rank = rank};
  if (strlen(id) >= sizeof comm->wire.id) bd_fake_fault(call, "no such identity");
  memcpy(comm->wire.id, id, strlen(id));
  bd_fake_wire_join(call, &comm->wire);
  return comm;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank) {
  bd_fake_check_started(__func__);
  *comm = join(__func__, id.internal, ranks, rank);
  return ncclSuccess;
}

// Waits until every member has said where it goes.
static void await_split(const struct ncclComm *comm) {
  for (int r = 0; r < comm->wire.ranks; r++)
    while (comm->wire.shared->member[r].splits < comm->splits)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

// Collective over the parent: members of one color, by key, then by their rank in the parent.
ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *child,
                           ncclConfig_t *config) {
  struct ncclComm *const comm = comm_of(__func__, parent);
  bd_fake_member *const members = comm->wire.shared->member, *self = &members[comm->wire.rank];
  if (config) bd_fake_fault(__func__, "a configuration is given");
  self->color = color;
  self->key = key;
  self->splits = ++comm->splits;
  await_split(comm);
  int ranks = 0, rank = 0;
  for (int r = 0; r < comm->wire.ranks; r++) {
    if (members[r].color != color) continue;
    ranks++;
    rank += members[r].key < key || (members[r].key == key && r < comm->wire.rank);
  }
  *child = NULL;
  self->splits = ++comm->splits;
  await_split(comm); // until then a member may not change its color
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  char id[BD_FAKE_ID_BYTES];
  if (snprintf(id, sizeof id, "%s-%llu-%d", comm->wire.id, (unsigned long long)comm->splits,
               color) >= (int)sizeof id)
    bd_fake_fault(__func__, "splits of splits of splits");
  if (rank == 0) bd_fake_wire_create(__func__, id);
  *child = join(__func__, id, ranks, rank);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  struct ncclComm *const c = comm_of(__func__, comm);
  if (c->issued != c->finished) bd_fake_fault(__func__, "work is left");
  bd_fake_wire_leave(&c->wire);
  c->alive = 0; // the memory stays, so that its use is found
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  struct ncclComm *const c = comm_of(__func__, comm);
  c->aborted = 1;
  bd_fake_drain(__func__);
  bd_fake_wire_leave(&c->wire);
  c->alive = 0;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  *error = comm_of(__func__, comm)->error;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t error) {
  return error == ncclSuccess ? "no error" : error == ncclRemoteError ? "remote error" : "error";
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add((bd_fake_exchange){__func__, comm, stream, BD_FAKE_ALL_REDUCE, send, recv,
                                (int64_t)count, dtype, op, 0, 0, 0, 0, 0});
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                           ncclComm_t comm, cudaStream_t stream) {
  return add((bd_fake_exchange){__func__, comm, stream, BD_FAKE_ALL_GATHER, send, recv,
                                (int64_t)count, dtype, ncclSum, 0, 0, 0, 0, 0});
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add((bd_fake_exchange){__func__, comm, stream, BD_FAKE_REDUCE_SCATTER, send, recv,
                                (int64_t)count, dtype, op, 0, 0, 0, 0, 0});
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return add((bd_fake_exchange){__func__, comm, stream, BD_FAKE_BROADCAST, send, recv,
                                (int64_t)count, dtype, ncclSum, root, 0, 0, 0, 0});
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t dtype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add((bd_fake_exchange){__func__, comm, stream, BD_FAKE_SEND, send, NULL, (int64_t)count,
                                dtype, ncclSum, peer, 0, 0, 0, 0});
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add((bd_fake_exchange){__func__, comm, stream, BD_FAKE_RECV, NULL, recv, (int64_t)count,
                                dtype, ncclSum, peer, 0, 0, 0, 0});
}
