// The fake NCCL among processes: which disagreements of ranks are found.
#include "tests/device/exchange.h"

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

// In every way that is taken below: ranks that connect in different ones hear of no more.
static ncclComm_t join_connected(int rank, float *at) {
  const ncclComm_t comm = join(rank);
  settle(comm, ncclAllReduce(at, at, COUNT, ncclFloat32, ncclSum, comm, stream));
  settle(comm, ncclAllReduce(at, at, 10, ncclFloat32, ncclSum, comm, stream));
  settle(comm, ncclAllGather(at, at + COUNT, COUNT / 4, ncclFloat32, comm, stream));
  cudaStreamSynchronize(stream);
  return comm;
}

static void other_kind(int rank) {
  float *const at = filled(2 * COUNT, 0);
  const ncclComm_t comm = join_connected(rank, at);
  if (rank == 1)
    settle(comm, ncclAllGather(at, at + COUNT, COUNT / 4, ncclFloat32, comm, stream));
  else
    settle(comm, ncclAllReduce(at, at, COUNT, ncclFloat32, ncclSum, comm, stream));
  cudaStreamSynchronize(stream);
}

static void other_order(int rank) {
  float *const at = filled(2 * COUNT, 0), *const more = filled(COUNT, 0);
  const ncclComm_t comm = join_connected(rank, at);
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

// Between neighbours in both directions, so that they are connected.
static void greet(ncclComm_t comm, int rank, float *at) {
  ncclGroupStart();
  ncclSend(at, 1, ncclFloat32, rank ^ 1, comm, stream);
  ncclRecv(at + 1, 1, ncclFloat32, rank ^ 1, comm, stream);
  settle(comm, ncclGroupEnd());
  cudaStreamSynchronize(stream);
}

static void deadlock(int rank) {
  const ncclComm_t comm = join(rank);
  float *const in = filled(COUNT, 0), *const out = filled(COUNT, 0);
  setenv("BD_FAKE_STUCK_SECONDS", "1", 1);
  greet(comm, rank, in);
  settle(comm, ncclSend(in, COUNT, ncclFloat32, rank ^ 1, comm, stream));
  settle(comm, ncclRecv(out, COUNT, ncclFloat32, rank ^ 1, comm, stream));
  cudaStreamSynchronize(stream);
}

// The first message between two is over on neither side before both have called it.
static void unconnected(int rank) {
  const ncclComm_t comm = join(rank);
  float *const in = filled(COUNT, 0), *const out = filled(COUNT, 0);
  setenv("BD_FAKE_STUCK_SECONDS", "1", 1);
  settle(comm, ncclSend(in, COUNT, ncclFloat32, rank ^ 1, comm, stream));
  settle(comm, ncclRecv(out, COUNT, ncclFloat32, rank ^ 1, comm, stream));
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
  greet(comm, rank, at);
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

int main(void) {
  char folder[] = "/tmp/braid-exchange-XXXXXX";
  exchange_begin(folder);
  fault("another call is still in progress", hasty);
  fault("the group has work of another communicator", two_in_a_group);
  fault("calls it with count", other_count);
  fault("operation", other_operation);
  fault("calls ncclAllGather with", other_kind);
  fault("calls ncclAllReduce with count 10", other_order);
  fault("expects 500 elements of type 7, rank 0 sends 1000", other_size);
  fault("nothing can go on: stream 1 at ncclSend", deadlock);
  fault("does not connect", unconnected);
  fault("rank 3 has left the communicator", too_few);
  fault("other work wrote the send buffer meanwhile", written_meanwhile);
  fault("the buffers overlap", buffers_overlap);
  return exchange_end(folder);
}
