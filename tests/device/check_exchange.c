// The fake NCCL among processes: what collectives and messages compute, and which disagreements are
// found.
#include "tests/device/children.h"
#include "tests/device/fake/half.h"

#include <dirent.h>
#include <nccl.h>
#include <signal.h>

enum { RANKS = 4, COUNT = 1000 };

static cudaStream_t stream;

// What a call on a nonblocking communicator returns at last; not all say that they are in progress.
static ncclResult_t settled(ncclComm_t comm, ncclResult_t result) {
  if (result == ncclSuccess) result = ncclInProgress;
  while (result == ncclInProgress) {
    usleep(100);
    if (ncclCommGetAsyncError(comm, &result)) _exit(1);
  }
  return result;
}

static void settle(ncclComm_t comm, ncclResult_t result) {
  check_true("a call of NCCL", settled(comm, result) == ncclSuccess);
}

static void leave(ncclComm_t comm) {
  settle(comm, ncclCommFinalize(comm));
  check_true("a communicator is left", ncclCommDestroy(comm) == ncclSuccess);
}

// Rank 0 makes the identity; all join. The number is the communicator's.
static ncclComm_t join_one(int rank, int number) {
  typedef struct door {
    _Atomic int open;
    ncclUniqueId id;
  } door;
  door *const d = (door *)children_shared + number;
  ncclComm_t comm;
  if (rank == 0) {
    ncclGetUniqueId(&d->id);
    d->open = 1;
  }
  while (!d->open)
    usleep(1000);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, RANKS, d->id, rank, &config);
  settle(comm, result);
  return comm;
}

static ncclComm_t join(int rank) {
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) _exit(1);
  return join_one(rank, 0);
}

static float *filled(int64_t count, float first) {
  float *const host = malloc((size_t)count * sizeof *host);
  void *at;
  for (int64_t i = 0; i < count; i++)
    host[i] = first + (float)i;
  if (cudaMalloc(&at, (size_t)count * sizeof *host)) _exit(1);
  cudaMemcpy(at, host, (size_t)count * sizeof *host, cudaMemcpyHostToDevice);
  return at;
}

static float *fetched(const float *at, int64_t count) {
  float *const host = malloc((size_t)count * sizeof *host);
  cudaStreamSynchronize(stream);
  cudaMemcpy(host, at, (size_t)count * sizeof *host, cudaMemcpyDeviceToHost);
  return host;
}

static void reduces(int rank) {
  const ncclComm_t comm = join(rank);
  float *const in = filled(COUNT, (float)rank * 0.1f), *const out = filled(COUNT, 0);
  float *const part = filled(COUNT / RANKS, 0);
  settle(comm, ncclAllReduce(in, out, COUNT, ncclFloat32, ncclSum, comm, stream));
  settle(comm, ncclReduceScatter(in, part, COUNT / RANKS, ncclFloat32, ncclMax, comm, stream));
  const float *const sums = fetched(out, COUNT), *const most = fetched(part, COUNT / RANKS);
  for (int i = 0; i < COUNT; i++) {
    float want = (float)i;
    for (int r = 1; r < RANKS; r++)
      want += (float)r * 0.1f + (float)i;
    check_near("a sum in rank order", &sums[i], &want, 1, 0);
  }
  for (int i = 0; i < COUNT / RANKS; i++) {
    const float want = 0.1f * (RANKS - 1) + (float)(rank * COUNT / RANKS + i);
    check_near("a maximum", &most[i], &want, 1, 0);
  }
  leave(comm);
}

static void gathers(int rank) {
  const ncclComm_t comm = join(rank);
  float *const in = filled(COUNT, (float)(rank * COUNT)), *const out = filled(RANKS * COUNT, -7);
  settle(comm, ncclAllGather(in, out, COUNT, ncclFloat32, comm, stream));
  const float *whole = fetched(out, RANKS * COUNT);
  for (int i = 0; i < RANKS * COUNT; i++)
    check_true("all parts, by rank", whole[i] == (float)i);
  settle(comm,
         ncclAllGather(out + rank * COUNT, out, COUNT, ncclFloat32, comm, stream)); // in place
  whole = fetched(out, RANKS * COUNT);
  check_true("in place", whole[0] == 0 && whole[RANKS * COUNT - 1] == RANKS * COUNT - 1);
  leave(comm);
}

// Halves are summed in f32 and rounded once: the large one would stay what it is otherwise.
static void rounds_once(const ncclComm_t comm, int rank, ncclDataType_t type, bd_fake_half kind,
                        float large) {
  uint16_t value = bd_fake_to_half(kind, rank ? 1 : large);
  void *at;
  cudaMalloc(&at, sizeof value);
  cudaMemcpy(at, &value, sizeof value, cudaMemcpyHostToDevice);
  settle(comm, ncclAllReduce(at, at, 1, type, ncclSum, comm, stream));
  cudaStreamSynchronize(stream);
  cudaMemcpy(&value, at, sizeof value, cudaMemcpyDeviceToHost);
  check_true("one rounding", bd_fake_of_half(kind, value) == large + 4);
}

static void halves(int rank) {
  const ncclComm_t comm = join(rank);
  rounds_once(comm, rank, ncclBfloat16, bd_fake_bf16, 256);
  rounds_once(comm, rank, ncclFloat16, bd_fake_f16, 2048);
}

// A ring where all send first: legal only as a group.
static void ring(int rank) {
  const ncclComm_t comm = join(rank);
  float *const in = filled(COUNT, (float)rank), *const out = filled(COUNT, -1);
  for (int turn = 0; turn < 3; turn++) {
    ncclGroupStart();
    ncclSend(in, COUNT, ncclFloat32, (rank + 1) % RANKS, comm, stream);
    ncclRecv(out, COUNT, ncclFloat32, (rank + RANKS - 1) % RANKS, comm, stream);
    settle(comm, ncclGroupEnd());
  }
  check_true("from the left", fetched(out, COUNT)[0] == (float)((rank + RANKS - 1) % RANKS));
}

static void two_in_a_group(int rank) {
  const ncclComm_t comm = join(rank), other = join_one(rank, 1);
  float *const at = filled(COUNT, 0), *const more = filled(COUNT, 0);
  ncclGroupStart();
  ncclAllReduce(at, at, COUNT, ncclFloat32, ncclSum, comm, stream);
  ncclAllReduce(more, more, COUNT, ncclFloat32, ncclSum, other, stream);
  ncclGroupEnd();
}

// Many calls, the end of none awaited.
static void hasty(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0);
  for (int i = 0; i < 50; i++)
    ncclAllReduce(at, at, COUNT, ncclFloat32, ncclSum, comm, stream);
}

// Work that is in progress is not in the stream yet: an event recorded now comes before it.
static void too_early(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(1, 1);
  int early = 0;
  for (int i = 0; i < 20; i++) {
    cudaEvent_t event;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    const ncclResult_t result = ncclAllReduce(at, at, 1, ncclFloat32, ncclMax, comm, stream);
    cudaEventRecord(event, stream);
    if (result == ncclInProgress) {
      while (cudaEventQuery(event) == cudaErrorNotReady)
        usleep(100);
      early++;
    }
    settle(comm, result);
  }
  check_true("calls are in progress", early > 0);
  cudaStreamSynchronize(stream);
  leave(comm);
}

// Memory that NCCL gave, as a window of the communicator.
static float *window_of(ncclComm_t comm, size_t bytes, ncclWindow_t *window) {
  void *at;
  if (ncclMemAlloc(&at, bytes)) _exit(1);
  settle(comm, ncclCommWindowRegister(comm, at, bytes, window, NCCL_WIN_COLL_SYMMETRIC));
  cudaMemsetAsync(at, 0, bytes, stream);
  return at;
}

static void window(int rank) {
  const ncclComm_t comm = join(rank);
  ncclWindow_t window;
  float *const at = window_of(comm, 8 * COUNT * sizeof *at, &window);
  settle(comm, ncclAllReduce(at, at + COUNT, COUNT, ncclFloat32, ncclSum, comm, stream));
  float *const whole = at + 2 * COUNT;
  settle(comm, ncclAllGather(whole + rank * COUNT, whole, COUNT, ncclFloat32, comm, stream));
  settle(comm,
         ncclReduceScatter(whole, whole + rank * COUNT, COUNT, ncclFloat32, ncclSum, comm, stream));
  cudaStreamSynchronize(stream);
  settle(comm, ncclCommWindowDeregister(comm, window));
  leave(comm);
  check_true("all is given back", ncclMemFree(at) == ncclSuccess);
}

static void window_kept(int rank) {
  const ncclComm_t comm = join(rank);
  ncclWindow_t window;
  window_of(comm, COUNT, &window);
  leave(comm);
}

static void window_elsewhere(int rank) {
  const ncclComm_t comm = join(rank);
  ncclWindow_t window;
  float *const at = window_of(comm, 2 * COUNT * sizeof *at, &window);
  float *const own = rank == 2 ? at + 1 : at;
  settle(comm, ncclAllReduce(own, own, COUNT, ncclFloat32, ncclSum, comm, stream));
  cudaStreamSynchronize(stream);
}

static void window_left(int rank) {
  const ncclComm_t comm = join(rank);
  ncclWindow_t window;
  float *const at = window_of(comm, 2 * COUNT * sizeof *at, &window), *const other =
                                                                          filled(COUNT, 0);
  settle(comm, ncclAllReduce(at, rank == 1 ? other : at + COUNT, COUNT, ncclFloat32, ncclSum, comm,
                             stream));
  cudaStreamSynchronize(stream);
}

static void window_of_other_size(int rank) {
  const ncclComm_t comm = join(rank);
  ncclWindow_t window;
  window_of(comm, rank == 3 ? 2 * COUNT : COUNT, &window);
}

static void window_of_other_memory(int rank) {
  const ncclComm_t comm = join(rank);
  ncclWindow_t window;
  settle(comm,
         ncclCommWindowRegister(comm, filled(COUNT, 0), COUNT, &window, NCCL_WIN_COLL_SYMMETRIC));
}

static void window_between_machines(int rank) {
  setenv("BD_FAKE_HOST", rank < 2 ? "a" : "b", 1);
  ncclWindow_t window;
  window_of(join(rank), COUNT, &window);
}

static void window_too_old(int rank) {
  setenv("BD_FAKE_NCCL", "22602", 1);
  ncclWindow_t window;
  window_of(join(rank), COUNT, &window);
}

static void other_count(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0);
  settle(comm,
         ncclAllReduce(at, at, rank == 2 ? COUNT - 1 : COUNT, ncclFloat32, ncclSum, comm, stream));
  cudaStreamSynchronize(stream);
}

static void other_operation(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0);
  settle(comm,
         ncclAllReduce(at, at, COUNT, ncclFloat32, rank == 2 ? ncclMax : ncclSum, comm, stream));
  cudaStreamSynchronize(stream);
}

static void other_kind(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(2 * COUNT, 0);
  if (rank == 1)
    settle(comm, ncclAllGather(at, at + COUNT, COUNT / 4, ncclFloat32, comm, stream));
  else
    settle(comm, ncclAllReduce(at, at, COUNT, ncclFloat32, ncclSum, comm, stream));
  cudaStreamSynchronize(stream);
}

static void other_order(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0), *const more = filled(COUNT, 0);
  settle(comm, ncclAllReduce(rank ? at : more, rank ? at : more, rank ? COUNT : 10, ncclFloat32,
                             ncclSum, comm, stream));
  settle(comm, ncclAllReduce(rank ? more : at, rank ? more : at, rank ? 10 : COUNT, ncclFloat32,
                             ncclSum, comm, stream));
  cudaStreamSynchronize(stream);
}

static void other_size(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0);
  if (rank == 0) settle(comm, ncclSend(at, COUNT, ncclFloat32, 1, comm, stream));
  if (rank == 1) settle(comm, ncclRecv(at, COUNT / 2, ncclFloat32, 0, comm, stream));
  cudaStreamSynchronize(stream);
}

static void deadlock(int rank) {
  const ncclComm_t comm = join(rank);
  float *const in = filled(COUNT, 0), *const out = filled(COUNT, 0);
  setenv("BD_FAKE_STUCK_SECONDS", "1", 1);
  settle(comm, ncclSend(in, COUNT, ncclFloat32, rank ^ 1, comm, stream));
  settle(comm, ncclRecv(out, COUNT, ncclFloat32, rank ^ 1, comm, stream));
  cudaStreamSynchronize(stream);
}

static void too_few(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0);
  if (rank != 3) settle(comm, ncclAllReduce(at, at, COUNT, ncclFloat32, ncclSum, comm, stream));
  if (rank != 3) cudaStreamSynchronize(stream);
  leave(comm);
}

// The buffer of a send is written by another stream while its receiver is late.
static void written_meanwhile(int rank) {
  const ncclComm_t comm = join(rank);
  cudaStream_t other;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  float *const at = filled(COUNT, 1);
  if (rank == 0) {
    settle(comm, ncclSend(at, COUNT, ncclFloat32, 1, comm, stream));
    usleep(200000); // the device idles into the send
    cudaMemsetAsync(at, 0, sizeof *at, other);
    cudaStreamSynchronize(other);
  } else if (rank == 1) {
    sleep(1);
    settle(comm, ncclRecv(at, COUNT, ncclFloat32, 0, comm, stream));
  }
  cudaStreamSynchronize(stream);
}

static void buffers_overlap(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(2 * COUNT, 1);
  settle(comm, ncclAllReduce(at, at + 1, COUNT, ncclFloat32, ncclSum, comm, stream));
}

static void dies(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0);
  if (rank == 3) raise(SIGKILL);
  settle(comm, ncclAllReduce(at, at, COUNT, ncclFloat32, ncclSum, comm, stream));
  ncclResult_t error = ncclSuccess;
  while (cudaStreamQuery(stream) == cudaErrorNotReady && error == ncclSuccess)
    ncclCommGetAsyncError(comm, &error);
  check_true("the peers are told", error == ncclRemoteError);
}

static void fault(const char *words, children_body body) {
  memset(children_shared, 0, 4096);
  children_fault(words, RANKS, body);
}

static void pass(const char *what, int seed, children_body body) {
  memset(children_shared, 0, 4096);
  children_pass(what, RANKS, seed, body);
}

// What processes that were ended left behind.
static void remove_folder(const char *path) {
  DIR *const folder = opendir(path);
  for (const struct dirent *entry; folder && (entry = readdir(folder));)
    unlinkat(dirfd(folder), entry->d_name, 0);
  if (folder) closedir(folder);
  rmdir(path);
}

int main(void) {
  char folder[] = "/tmp/braid-exchange-XXXXXX";
  if (!mkdtemp(folder)) return 1;
  setenv("BD_FAKE_FOLDER", folder, 1);
  setenv("BD_FAKE_STUCK_SECONDS", "3", 1);
  children_share(4096);
  for (int seed = 0; seed < 3; seed++) {
    pass("reduces", seed, reduces);
    pass("gathers", seed, gathers);
    pass("ring", seed, ring);
    pass("work in progress", seed, too_early);
  }
  pass("rounds once", 1, halves);
  fault("another call is still in progress", hasty);
  fault("the group has work of another communicator", two_in_a_group);
  fault("calls it with count", other_count);
  fault("operation", other_operation);
  fault("calls ncclAllGather with", other_kind);
  fault("calls ncclAllReduce with count 10", other_order);
  fault("expects 500 elements of type 7, rank 0 sends 1000", other_size);
  fault("nothing can go on: stream 1 at ncclSend", deadlock);
  fault("rank 3 has left the communicator", too_few);
  fault("other work wrote the send buffer meanwhile", written_meanwhile);
  fault("the buffers overlap", buffers_overlap);
  pass("a window", 1, window);
  fault("memory is registered still", window_kept);
  fault("sends byte 4 of the window", window_elsewhere);
  fault("receives at -1", window_left);
  fault("rank 3 2000", window_of_other_size);
  fault("is not from ncclMemAlloc", window_of_other_memory);
  fault("are on two machines", window_between_machines);
  fault("this version of NCCL has no windows", window_too_old);
  memset(children_shared, 0, 4096);
  unsetenv("BD_FAKE_STUCK_SECONDS");
  const children_end end = children_run(RANKS, 1, dies);
  for (int rank = 0; rank < RANKS; rank++)
    check_true("all but the dead rank end well",
               end.status[rank] == (rank == 3 ? 128 + SIGKILL : 0));
  remove_folder(folder);
  return check_result(0);
}
