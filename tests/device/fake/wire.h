// What the processes of one communicator share: who is there, which call each is at, and their
// data.
#ifndef BD_TESTS_DEVICE_WIRE_H
#define BD_TESTS_DEVICE_WIRE_H
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { BD_FAKE_MAX_RANKS = 16, BD_FAKE_ID_BYTES = 64 };

// A call as every rank of it must have made it.
typedef struct bd_fake_call {
  int32_t kind, dtype, op;
  int64_t count;
  int64_t send_at, recv_at; // in the window, if there is one
} bd_fake_call;

// Calls are numbered from 0; `posted` and `taken` count those whose data lie ready and those that
// are over.
typedef struct bd_fake_turn {
  _Atomic uint64_t posted, taken;
  bd_fake_call call;
} bd_fake_turn;

typedef struct bd_fake_member {
  atomic_int process, left; // process: 0 until it has joined
  atomic_int collects;      // a bit for each way of collectives that it has called
  _Atomic uint64_t host;    // a hash of its name
  _Atomic int64_t window_bytes;
  bd_fake_turn turn; // of collectives
} bd_fake_member;

typedef struct bd_fake_shared {
  atomic_int ranks, gone;
  bd_fake_member member[BD_FAKE_MAX_RANKS];
  bd_fake_turn message[BD_FAKE_MAX_RANKS][BD_FAKE_MAX_RANKS]; // from, to
  atomic_int sends[BD_FAKE_MAX_RANKS][BD_FAKE_MAX_RANKS];     // from has called it for to
  atomic_int receives[BD_FAKE_MAX_RANKS][BD_FAKE_MAX_RANKS];  // to has called it for from
} bd_fake_shared;

typedef struct bd_fake_wire {
  char id[BD_FAKE_ID_BYTES];
  int ranks, rank;
  bd_fake_shared *shared;
} bd_fake_wire;

// Files of the wires lie in $BD_FAKE_FOLDER, or /tmp.
void bd_fake_wire_create(const char *call, const char *id);
void bd_fake_wire_enter(const char *call, bd_fake_wire *wire);
// Whether all ranks have entered.
int bd_fake_wire_is_complete(const bd_fake_wire *wire);
void bd_fake_wire_leave(bd_fake_wire *wire);
// Data of this rank's collective (`to` < 0) or of its message.
void bd_fake_wire_write(const bd_fake_wire *wire, int to, const void *data, size_t bytes);
// Of rank `from`: its collective's data (`to` < 0) or its message to `to`, from byte `offset` on.
void bd_fake_wire_read(const bd_fake_wire *wire, int from, int to, size_t offset, void *data,
                       size_t bytes);
// Whether another rank's process has ended.
int bd_fake_wire_is_dead(const bd_fake_wire *wire, int rank);
#endif
