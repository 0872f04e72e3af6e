// The fake NCCL among processes: what collectives and messages compute, and which disagreements are
// found.
#include "tests/device/children.h"
#include "tests/device/fake/bf16.h"

#include <dirent.h>
#include <nccl.h>
#include <signal.h>

enum { RANKS = 4, COUNT = 1000 };

static cudaStream_t stream;

// Rank 0 makes the identity; all join.
static ncclComm_t join(int rank) {
  typedef struct door {
    _Atomic int open;
    ncclUniqueId id;
  } door;
  door *const d = children_shared;
  ncclComm_t comm;
  if (rank == 0) {
    ncclGetUniqueId(&d->id);
    d->open = 1;
  }
  while (!d->open)
    usleep(1000);
  if (ncclCommInitRank(&comm, RANKS, d->id, rank)) _exit(1);
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) _exit(1);
  return comm;
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
  ncclAllReduce(in, out, COUNT, ncclFloat32, ncclSum, comm, stream);
  ncclReduceScatter(in, part, COUNT / RANKS, ncclFloat32, ncclMax, comm, stream);
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
  ncclCommDestroy(comm);
}

static void gathers(int rank) {
  const ncclComm_t comm = join(rank);
  float *const in = filled(COUNT, (float)(rank * COUNT)), *const out = filled(RANKS * COUNT, -7);
  ncclAllGather(in, out, COUNT, ncclFloat32, comm, stream);
  const float *whole = fetched(out, RANKS * COUNT);
  for (int i = 0; i < RANKS * COUNT; i++)
    check_true("all parts, by rank", whole[i] == (float)i);
  ncclAllGather(out + rank * COUNT, out, COUNT, ncclFloat32, comm, stream); // in place
  whole = fetched(out, RANKS * COUNT);
  check_true("in place", whole[0] == 0 && whole[RANKS * COUNT - 1] == RANKS * COUNT - 1);
  ncclBroadcast(in, in, COUNT, ncclFloat32, 2, comm, stream);
  check_true("from the root", fetched(in, COUNT)[1] == 2 * COUNT + 1);
  ncclCommDestroy(comm);
}

// bf16 is summed in f32 and rounded once: 256 + 1 + 1 + 1 would stay 256 otherwise.
static void rounds_once(int rank) {
  const ncclComm_t comm = join(rank);
  uint16_t value = bd_fake_to_bf16(rank ? 1 : 256);
  void *at;
  cudaMalloc(&at, sizeof value);
  cudaMemcpy(at, &value, sizeof value, cudaMemcpyHostToDevice);
  ncclAllReduce(at, at, 1, ncclBfloat16, ncclSum, comm, stream);
  cudaStreamSynchronize(stream);
  cudaMemcpy(&value, at, sizeof value, cudaMemcpyDeviceToHost);
  check_true("one rounding", bd_fake_of_bf16(value) == 260);
}

// A ring where all send first: legal only as a group.
static void ring(int rank) {
  const ncclComm_t comm = join(rank);
  float *const in = filled(COUNT, (float)rank), *const out = filled(COUNT, -1);
  for (int turn = 0; turn < 3; turn++) {
    ncclGroupStart();
    ncclSend(in, COUNT, ncclFloat32, (rank + 1) % RANKS, comm, stream);
    ncclRecv(out, COUNT, ncclFloat32, (rank + RANKS - 1) % RANKS, comm, stream);
    ncclGroupEnd();
  }
  check_true("from the left", fetched(out, COUNT)[0] == (float)((rank + RANKS - 1) % RANKS));
}

// Rows and columns of a 2 x 2 mesh.
static void splits(int rank) {
  const ncclComm_t comm = join(rank);
  ncclComm_t row, column;
  ncclCommSplit(comm, rank / 2, rank, &row, NULL);
  ncclCommSplit(comm, rank % 2, -rank, &column, NULL);
  float *const in = filled(1, (float)rank), *const both = filled(2, 0);
  ncclAllGather(in, both, 1, ncclFloat32, row, stream);
  const float *got = fetched(both, 2);
  check_true("a row", got[0] == (float)(rank / 2 * 2) && got[1] == (float)(rank / 2 * 2 + 1));
  ncclAllGather(in, both, 1, ncclFloat32, column, stream);
  got = fetched(both, 2);
  check_true("a column, backwards", got[0] == (float)(rank % 2 + 2) && got[1] == (float)(rank % 2));
}

static void other_count(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0);
  ncclAllReduce(at, at, rank == 2 ? COUNT - 1 : COUNT, ncclFloat32, ncclSum, comm, stream);
  cudaStreamSynchronize(stream);
}

static void other_operation(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0);
  ncclAllReduce(at, at, COUNT, ncclFloat32, rank == 2 ? ncclMax : ncclSum, comm, stream);
  cudaStreamSynchronize(stream);
}

static void other_kind(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0);
  if (rank == 1)
    ncclBroadcast(at, at, COUNT, ncclFloat32, 0, comm, stream);
  else
    ncclAllReduce(at, at, COUNT, ncclFloat32, ncclSum, comm, stream);
  cudaStreamSynchronize(stream);
}

static void other_order(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0), *const more = filled(COUNT, 0);
  ncclAllReduce(rank ? at : more, rank ? at : more, rank ? COUNT : 10, ncclFloat32, ncclSum, comm,
                stream);
  ncclAllReduce(rank ? more : at, rank ? more : at, rank ? 10 : COUNT, ncclFloat32, ncclSum, comm,
                stream);
  cudaStreamSynchronize(stream);
}

static void other_size(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0);
  if (rank == 0) ncclSend(at, COUNT, ncclFloat32, 1, comm, stream);
  if (rank == 1) ncclRecv(at, COUNT / 2, ncclFloat32, 0, comm, stream);
  cudaStreamSynchronize(stream);
}

static void deadlock(int rank) {
  const ncclComm_t comm = join(rank);
  float *const in = filled(COUNT, 0), *const out = filled(COUNT, 0);
  setenv("BD_FAKE_STUCK_SECONDS", "1", 1);
  ncclSend(in, COUNT, ncclFloat32, rank ^ 1, comm, stream);
  ncclRecv(out, COUNT, ncclFloat32, rank ^ 1, comm, stream);
  cudaStreamSynchronize(stream);
}

static void too_few(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0);
  if (rank != 3) ncclAllReduce(at, at, COUNT, ncclFloat32, ncclSum, comm, stream);
  if (rank != 3) cudaStreamSynchronize(stream);
  ncclCommDestroy(comm);
}

// The buffer of a send is written by another stream while its receiver is late.
static void written_meanwhile(int rank) {
  const ncclComm_t comm = join(rank);
  cudaStream_t other;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  float *const at = filled(COUNT, 1);
  if (rank == 0) {
    ncclSend(at, COUNT, ncclFloat32, 1, comm, stream);
    usleep(200000); // the device idles into the send
    cudaMemsetAsync(at, 0, sizeof *at, other);
    cudaStreamSynchronize(other);
  } else if (rank == 1) {
    sleep(1);
    ncclRecv(at, COUNT, ncclFloat32, 0, comm, stream);
  }
  cudaStreamSynchronize(stream);
}

static void buffers_overlap(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(2 * COUNT, 1);
  ncclAllReduce(at, at + 1, COUNT, ncclFloat32, ncclSum, comm, stream);
}

static void dies(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0);
  if (rank == 3) raise(SIGKILL);
  ncclAllReduce(at, at, COUNT, ncclFloat32, ncclSum, comm, stream);
  ncclResult_t error = ncclSuccess;
  while (cudaStreamQuery(stream) == cudaErrorNotReady && error == ncclSuccess)
    ncclCommGetAsyncError(comm, &error);
  check_true("the peers are told", error == ncclRemoteError);
  ncclCommAbort(comm);
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
    pass("splits", seed, splits);
  }
  pass("rounds once", 1, rounds_once);
  fault("calls it with count", other_count);
  fault("operation", other_operation);
  fault("calls ncclBroadcast with", other_kind);
  fault("calls ncclAllReduce with count 10", other_order);
  fault("expects 500 elements of type 7, rank 0 sends 1000", other_size);
  fault("nothing can go on: stream 1 at ncclSend", deadlock);
  fault("rank 3 has left the communicator", too_few);
  fault("other work wrote the send buffer meanwhile", written_meanwhile);
  fault("the buffers overlap", buffers_overlap);
  memset(children_shared, 0, 4096);
  const children_end end = children_run(RANKS, 1, dies);
  for (int rank = 0; rank < RANKS; rank++)
    check_true("all but the dead rank end well",
               end.status[rank] == (rank == 3 ? 128 + SIGKILL : 0));
  remove_folder(folder);
  return check_result(0);
}
