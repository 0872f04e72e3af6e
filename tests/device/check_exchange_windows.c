// The fake NCCL among processes: windows, and which misuse of them is found.
#include "tests/device/exchange.h"

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

int main(void) {
  char folder[] = "/tmp/braid-exchange-XXXXXX";
  exchange_begin(folder);
  pass("a window", 1, window);
  fault("memory is registered still", window_kept);
  fault("sends byte 4 of the window", window_elsewhere);
  fault("receives at -1", window_left);
  fault("rank 3 2000", window_of_other_size);
  fault("is not from ncclMemAlloc", window_of_other_memory);
  fault("are on two machines", window_between_machines);
  fault("this version of NCCL has no windows", window_too_old);
  return exchange_end(folder);
}
