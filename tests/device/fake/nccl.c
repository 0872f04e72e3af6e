// Communicators and groups. Communicators are nonblocking: any call may be in progress when it
// returns, and then nothing else may be called on that communicator, nor is its work in the stream,
// before ncclCommGetAsyncError has said that it is over; the first of its kind is not before the
// ranks that it connects have made it too. Calls in one group start in an order that
// NCCL keeps to itself, so ranks that wait for each other in two communicators have a group for
// each. With NCCL_LAUNCH_ORDER_IMPLICIT work begins in the order of the calls, whatever its
// communicator and stream; under drivers before CUDA 12.3 only when all before it is over.
#include "tests/device/fake/device.h"
#include "tests/device/fake/exchange.h"
#include "tests/device/fake/queue.h"
#include "tests/device/fake/trouble.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum {
  MAX_GROUP = 4096,
  PEER_WATCH = 256,
  MOST_POLLS = 3,
  STUCK_SECONDS = 60,
  BEGINNING_DRIVER = 12030
};

// Whether work of several communicators waits for what was called before it: to begin, or to end.
typedef enum order { ANY_ORDER, ORDER_OF_BEGINS, ORDER_OF_ENDS } order;

// Exchanges of one communicator and stream that were called together.
typedef struct bd_fake_work {
  struct bd_fake_work *next;
  struct ncclComm *comm;
  cudaStream_t stream;
  const char *call;
  uint64_t ticket;
  order order;
  uint64_t launch; // its number over all communicators
  int begun;
  int count;
  bd_fake_exchange exchanges[];
} work;

static int group_depth, group_count;
static bd_fake_exchange *group;
static struct ncclComm *group_comms[MAX_GROUP]; // that the group concerns
static uint64_t launches, begins, ends;         // of work, over all communicators

// Between 0 and `most`, by the seed and the number of calls so far.
static int draw(int most) {
  static uint64_t calls;
  const uint64_t words[3] = {(uint64_t)bd_fake_setting("BD_FAKE_SEED", 1),
                             (uint64_t)bd_fake_setting("BD_FAKE_RANK", 0), calls++};
  return (int)(bd_fake_sum_of(words, sizeof words) % (uint64_t)(most + 1));
}

struct ncclComm *bd_fake_comm_of(const char *call, ncclComm_t comm) {
  if (!comm || !comm->alive) bd_fake_fault(call, "%p is no communicator", (void *)comm);
  if (!comm->joined || comm->opens_window || comm->polls || comm->deferred)
    bd_fake_fault(call, "another call is still in progress");
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

static order order_of_work(void) {
  int driver;
  if (!bd_fake_setting("NCCL_LAUNCH_ORDER_IMPLICIT", 0)) return ANY_ORDER;
  cudaDriverGetVersion(&driver);
  return driver < BEGINNING_DRIVER ? ORDER_OF_ENDS : ORDER_OF_BEGINS;
}

static int may_begin(work *w) {
  if (w->begun) return 1;
  if (w->order == ORDER_OF_BEGINS && begins != w->launch) return 0;
  if (w->order == ORDER_OF_ENDS && ends != w->launch) return 0;
  begins++;
  return w->begun = 1;
}

// Collectives run one after another; messages side by side, because a receive may be what the peer
// needs before it takes a send.
static int run(void *args) {
  work *const w = *(work **)args;
  int left = 0, collective = 0;
  if (!may_begin(w)) return 0;
  if (w->comm->finished != w->ticket)
    bd_fake_fault(w->call, "another stream has work of this communicator that is not waited for");
  for (int i = 0; i < w->count; i++) {
    bd_fake_exchange *const e = &w->exchanges[i];
    const int message = e->kind == BD_FAKE_SEND || e->kind == BD_FAKE_RECV;
    if (e->state == 2 || (!message && collective)) continue;
    if (bd_fake_exchange_step(e))
      e->state = 2;
    else
      left++, collective |= !message;
  }
  if (left) {
    watch_peers(w);
    return 0;
  }
  w->comm->finished++;
  ends++;
  free(w);
  return 1;
}

static void defer(const bd_fake_exchange *exchanges, int count) {
  work *const w = malloc(sizeof *w + (size_t)count * sizeof *exchanges);
  if (!w) abort();
  for (int i = 0; i < count; i++)
    bd_fake_exchange_offer(&exchanges[i]);
  *w = (work){.comm = exchanges[0].comm,
              .stream = exchanges[0].stream,
              .call = exchanges[0].call,
              .ticket = exchanges[0].comm->issued++,
              .count = count};
  memcpy(w->exchanges, exchanges, (size_t)count * sizeof *exchanges);
  work **last = &w->comm->deferred;
  while (*last)
    last = &(*last)->next;
  *last = w;
}

static double seconds_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// The first rank that has not yet called what connects it to this one, or -1.
static int missing_rank(const work *w) {
  for (int i = 0; i < w->count; i++)
    for (int r = 0; r < w->comm->wire.ranks; r++)
      if (!bd_fake_exchange_is_met(&w->exchanges[i], r)) return r;
  return -1;
}

static int is_connected(const work *w) {
  struct ncclComm *const comm = w->comm;
  const int missing = missing_rank(w);
  if (missing < 0) {
    comm->connects_since = 0;
    return 1;
  }
  if (comm->connects_since <= 0) comm->connects_since = seconds_now();
  if (++comm->waits % PEER_WATCH) return 0;
  if (comm->wire.shared->member[missing].left)
    bd_fake_fault(w->call, "rank %d has left the communicator", missing);
  if (seconds_now() >
      comm->connects_since + (double)bd_fake_setting("BD_FAKE_STUCK_SECONDS", STUCK_SECONDS))
    bd_fake_fault(w->call, "nothing can go on: rank %d does not connect", missing);
  if (bd_fake_wire_is_dead(&comm->wire, missing)) comm->error = ncclRemoteError;
  return 0;
}

// One step towards the end of the call in progress.
static ncclResult_t go_on(struct ncclComm *comm) {
  if (!comm->error) comm->error = bd_fake_async_error();
  if (comm->error) return comm->error;
  if (!comm->joined) {
    comm->joined = comm->wire.shared && bd_fake_wire_is_complete(&comm->wire);
    return comm->joined ? ncclSuccess : ncclInProgress;
  }
  if (comm->opens_window && !bd_fake_window_is_open(comm)) return ncclInProgress;
  if (comm->polls && --comm->polls) return ncclInProgress;
  for (work *w = comm->deferred; w; w = comm->deferred) {
    if (!is_connected(w)) return comm->error ? comm->error : ncclInProgress;
    comm->deferred = w->next;
    w->order = order_of_work();
    w->launch = launches++;
    bd_fake_enqueue(w->call, w->stream, run, &w, sizeof w);
  }
  if (!comm->finalized || comm->issued == comm->finished) return ncclSuccess;
  bd_fake_let_work("ncclCommFinalize");
  return ncclInProgress;
}

// Of the calls one in eight may be as long in progress as the setting says.
ncclResult_t bd_fake_end_call(struct ncclComm *comm) {
  comm->polls = draw(draw(7) ? MOST_POLLS : (int)bd_fake_setting("BD_FAKE_POLLS", MOST_POLLS));
  return comm->polls ? ncclInProgress : go_on(comm);
}

static void concern(struct ncclComm *comm) {
  int i = 0;
  while (i < MAX_GROUP && group_comms[i] && group_comms[i] != comm)
    i++;
  if (i == MAX_GROUP) bd_fake_fault("ncclGroupEnd", "the group is too large");
  group_comms[i] = comm;
}

// Copy engines gather, they do not add.
static void count_collective(const bd_fake_exchange *e) {
  bd_fake_count.collectives++;
  bd_fake_count.stream_changes += e->comm->stream && e->comm->stream != e->stream;
  e->comm->stream = e->stream;
  if (!bd_fake_exchange_in_window(e)) return;
  bd_fake_count.window_collectives++;
  if (e->kind == BD_FAKE_ALL_GATHER && e->comm->copy_engines)
    bd_fake_count.copy_engine_collectives++;
}

static ncclResult_t add(bd_fake_exchange exchange) {
  bd_fake_comm_of(exchange.call, exchange.comm);
  bd_fake_refuse_capture(exchange.call, exchange.stream);
  if (exchange.comm->finalized) bd_fake_fault(exchange.call, "the communicator is finalized");
  bd_fake_exchange_check(&exchange);
  bd_fake_block();
  if (exchange.kind == BD_FAKE_SEND || exchange.kind == BD_FAKE_RECV)
    bd_fake_count.messages++;
  else
    count_collective(&exchange);
  if (!group_depth) {
    defer(&exchange, 1);
    return bd_fake_end_call(exchange.comm);
  }
  if (group_count && group[0].comm != exchange.comm)
    bd_fake_fault(
        exchange.call,
        "the group has work of another communicator: NCCL does not say which starts first");
  if (!group) group = malloc(MAX_GROUP * sizeof *group);
  if (!group || group_count == MAX_GROUP) bd_fake_fault(exchange.call, "the group is too large");
  group[group_count++] = exchange;
  concern(exchange.comm);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart(void) {
  group_depth++;
  return ncclSuccess;
}

// What was called for one communicator and stream becomes one piece of work.
static void divide_group(void) {
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
    if (count) defer(same, count);
  }
  free(same);
  group_count = 0;
}

ncclResult_t ncclGroupEnd(void) {
  ncclResult_t result = ncclSuccess;
  if (!group_depth) bd_fake_fault(__func__, "no group was started");
  if (--group_depth) return ncclSuccess;
  divide_group();
  for (int i = 0; i < MAX_GROUP && group_comms[i]; i++) {
    const ncclResult_t one =
        group_comms[i]->joined ? bd_fake_end_call(group_comms[i]) : ncclInProgress;
    if (one != ncclSuccess) result = one;
    group_comms[i] = NULL;
  }
  return result;
}

// BD_FAKE_NCCL_OTHER: that of all ranks but the first.
ncclResult_t ncclGetVersion(int *version) {
  *version = (int)bd_fake_setting("BD_FAKE_NCCL", NCCL_VERSION_CODE);
  if (bd_fake_setting("RANK", 0) > 0)
    *version = (int)bd_fake_setting("BD_FAKE_NCCL_OTHER", *version);
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

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  static const ncclConfig_t model = NCCL_CONFIG_INITIALIZER;
  bd_fake_check_started(__func__);
  if (getenv("BD_FAKE_NCCL_WORDS") && rank == 0) return ncclSystemError;
  if (!config || config->magic != model.magic || config->size != model.size || config->blocking)
    bd_fake_fault(__func__, "the configuration is not that of a nonblocking communicator");
  struct ncclComm *const made = calloc(1, sizeof *made);
  if (!made) abort();
  made->alive = 1;
  made->copy_engines = bd_fake_wants_copy_engines(__func__, config);
  made->wire = (bd_fake_wire){.ranks = ranks, .rank = rank};
  if (strnlen(id.internal, sizeof id.internal) >= sizeof made->wire.id)
    bd_fake_fault(__func__, "no such identity");
  memcpy(made->wire.id, id.internal, strlen(id.internal));
  if (!bd_fake_never_joins()) bd_fake_wire_enter(__func__, &made->wire);
  *comm = made;
  bd_fake_count.handles++;
  bd_fake_count.communicators++;
  if (group_depth) concern(made);
  return draw(1) ? ncclSuccess : ncclInProgress; // it is not over in either case
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  if (!comm || !comm->alive) bd_fake_fault(__func__, "%p is no communicator", (void *)comm);
  *error = go_on(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  struct ncclComm *const c = bd_fake_comm_of(__func__, comm);
  if (c->finalized) bd_fake_fault(__func__, "a second time");
  c->finalized = 1;
  return bd_fake_end_call(c);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  struct ncclComm *const c = bd_fake_comm_of(__func__, comm);
  if (!c->finalized) bd_fake_fault(__func__, "the communicator was not finalized");
  if (c->issued != c->finished) bd_fake_fault(__func__, "work is left");
  if (c->registered || c->window) bd_fake_fault(__func__, "memory is registered still");
  bd_fake_wire_leave(&c->wire);
  bd_fake_count.handles--;
  bd_fake_count.communicators--;
  c->alive = 0; // the memory stays, so that its use is found
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t error) {
  return error == ncclSuccess ? "no error" : error == ncclRemoteError ? "remote error" : "error";
}

// BD_FAKE_NCCL_WORDS: the first rank of a communicator cannot join it, and NCCL says this.
const char *ncclGetLastError(ncclComm_t comm) {
  const char *const words = getenv("BD_FAKE_NCCL_WORDS");
  (void)comm;
  return words ? words : "";
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add((bd_fake_exchange){.call = __func__,
                                .comm = comm,
                                .stream = stream,
                                .kind = BD_FAKE_ALL_REDUCE,
                                .send = send,
                                .recv = recv,
                                .count = (int64_t)count,
                                .dtype = dtype,
                                .op = op});
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                           ncclComm_t comm, cudaStream_t stream) {
  return add((bd_fake_exchange){.call = __func__,
                                .comm = comm,
                                .stream = stream,
                                .kind = BD_FAKE_ALL_GATHER,
                                .send = send,
                                .recv = recv,
                                .count = (int64_t)count,
                                .dtype = dtype});
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add((bd_fake_exchange){.call = __func__,
                                .comm = comm,
                                .stream = stream,
                                .kind = BD_FAKE_REDUCE_SCATTER,
                                .send = send,
                                .recv = recv,
                                .count = (int64_t)count,
                                .dtype = dtype,
                                .op = op});
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t dtype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add((bd_fake_exchange){.call = __func__,
                                .comm = comm,
                                .stream = stream,
                                .kind = BD_FAKE_SEND,
                                .send = send,
                                .count = (int64_t)count,
                                .dtype = dtype,
                                .root = peer});
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add((bd_fake_exchange){.call = __func__,
                                .comm = comm,
                                .stream = stream,
                                .kind = BD_FAKE_RECV,
                                .recv = recv,
                                .count = (int64_t)count,
                                .dtype = dtype,
                                .root = peer});
}
