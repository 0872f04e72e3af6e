// The fake NCCL among processes: what collectives and messages compute, and when.
#include "tests/device/exchange.h"
#include "tests/device/fake/half.h"

#include <signal.h>

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

static void dies(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0);
  settle(comm, ncclAllReduce(at, at, COUNT, ncclFloat32, ncclSum, comm, stream));
  cudaStreamSynchronize(stream);
  if (rank == 3) raise(SIGKILL);
  settle(comm, ncclAllReduce(at, at, COUNT, ncclFloat32, ncclSum, comm, stream));
  ncclResult_t error = ncclSuccess;
  while (cudaStreamQuery(stream) == cudaErrorNotReady && error == ncclSuccess)
    ncclCommGetAsyncError(comm, &error);
  check_true("the peers are told", error == ncclRemoteError);
}

static void dies_unconnected(int rank) {
  const ncclComm_t comm = join(rank);
  float *const at = filled(COUNT, 0);
  if (rank == 3) raise(SIGKILL);
  check_true("the peers are told", settled(comm, ncclAllReduce(at, at, COUNT, ncclFloat32, ncclSum,
                                                               comm, stream)) == ncclRemoteError);
}

static void last_dies(children_body body) {
  memset(children_shared, 0, 4096);
  const children_end end = children_run(RANKS, 1, body);
  for (int rank = 0; rank < RANKS; rank++)
    check_true("all but the dead rank end well",
               end.status[rank] == (rank == 3 ? 128 + SIGKILL : 0));
}

int main(void) {
  char folder[] = "/tmp/braid-exchange-XXXXXX";
  exchange_begin(folder);
  for (int seed = 0; seed < 3; seed++) {
    pass("reduces", seed, reduces);
    pass("gathers", seed, gathers);
    pass("ring", seed, ring);
    pass("work in progress", seed, too_early);
  }
  pass("rounds once", 1, halves);
  unsetenv("BD_FAKE_STUCK_SECONDS");
  last_dies(dies);
  last_dies(dies_unconnected);
  return exchange_end(folder);
}
