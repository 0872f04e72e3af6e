// Collectives and messages among processes, one at a time per communicator, in the order of the
// program: streams that share a communicator have to wait for each other.
#ifndef BD_TESTS_DEVICE_EXCHANGE_H
#define BD_TESTS_DEVICE_EXCHANGE_H
#include "tests/device/fake/wire.h"

#include <nccl.h>

typedef enum bd_fake_exchange_kind {
  BD_FAKE_ALL_REDUCE,
  BD_FAKE_ALL_GATHER,
  BD_FAKE_REDUCE_SCATTER,
  BD_FAKE_SEND,
  BD_FAKE_RECV,
} bd_fake_exchange_kind;

struct ncclComm {
  bd_fake_wire wire;
  int alive, joined, finalized;
  int polls;                     // until the call in progress is over
  struct bd_fake_work *deferred; // is enqueued then
  double connects_since;         // the call in progress, or 0
  ncclResult_t error;
  uint64_t waits;
  uint64_t issued, finished; // pieces of work
  void *registered, *window;
  size_t window_bytes;
  int opens_window;         // and others have not yet
  ncclWindow_t *new_window; // where it goes then
  int copy_engines;         // gather what lies in windows
  uint64_t collectives;
  cudaStream_t stream; // of the last one
  uint64_t sent[BD_FAKE_MAX_RANKS], received[BD_FAKE_MAX_RANKS];
};

typedef struct bd_fake_exchange {
  const char *call;
  struct ncclComm *comm;
  cudaStream_t stream;
  bd_fake_exchange_kind kind;
  const void *send;
  void *recv;
  int64_t count; // as the call counts
  ncclDataType_t dtype;
  ncclRedOp_t op;
  int root; // or peer
  uint64_t turn;
  int state; // 0: to begin
  uint64_t send_sum, recv_sum;
} bd_fake_exchange;

// The communicator, ready for another call.
struct ncclComm *bd_fake_comm_of(const char *call, ncclComm_t comm);
// What such a call returns.
ncclResult_t bd_fake_end_call(struct ncclComm *comm);
// Whether all ranks have registered their windows, as they must.
int bd_fake_window_is_open(struct ncclComm *comm);
int bd_fake_wants_copy_engines(const char *call, const ncclConfig_t *config);

// Checks buffers and arguments, and gives the exchange its turn.
void bd_fake_exchange_check(bd_fake_exchange *exchange);
// Whether both buffers of a collective lie in its communicator's window.
int bd_fake_exchange_in_window(const bd_fake_exchange *exchange);
// Goes on as far as peers allow. 1 when done.
int bd_fake_exchange_step(bd_fake_exchange *exchange);
// Ranks connect at their first collective of each way, and at the first message between two: that
// call is over when the others have made theirs. Notes that this rank has; and whether that one
// has.
void bd_fake_exchange_offer(const bd_fake_exchange *exchange);
int bd_fake_exchange_is_met(const bd_fake_exchange *exchange, int rank);
// Whether it cannot go on before this rank does something.
int bd_fake_exchange_awaits(const bd_fake_exchange *exchange, int rank);

#endif
