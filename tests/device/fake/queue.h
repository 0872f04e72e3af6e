// Streams as queues, and the thread that empties them.
#ifndef BD_TESTS_DEVICE_QUEUE_H
#define BD_TESTS_DEVICE_QUEUE_H
#include "tests/device/fake/device.h"

#include <stdatomic.h>

typedef struct bd_fake_op bd_fake_op;

// Work that a stream was given while it was captured.
typedef struct bd_fake_captured {
  int count;
  bd_fake_op *first, *last;
} bd_fake_captured;

struct CUstream_st {
  int alive, index;
  int blocking; // ordered with the legacy default stream
  uint64_t priority;
  bd_fake_op *head, *tail;
  bd_fake_captured *capture; // NULL: work is done
  struct CUstream_st *next;
};

// What an event stands for: one place in one stream. Shared by the event and the work that names
// it.
typedef struct bd_fake_mark {
  atomic_int reached, holders;
  double seconds; // when it was reached
} bd_fake_mark;

bd_fake_mark *bd_fake_mark_create(void);
bd_fake_mark *bd_fake_mark_hold(bd_fake_mark *mark);
void bd_fake_mark_drop(bd_fake_mark *mark);

// The stream's queue; ends the process for a stream that does not exist.
struct CUstream_st *bd_fake_stream_of(const char *call, cudaStream_t stream);
struct CUstream_st *bd_fake_stream_create(int blocking);
void bd_fake_stream_destroy(struct CUstream_st *stream);
// Work of a graph is done as one piece.
int bd_fake_run_captured(const bd_fake_captured *captured);
void bd_fake_free_captured(bd_fake_captured *captured);
// Ends the process when the stream is being captured: the call has no place in a graph.
void bd_fake_refuse_capture(const char *call, cudaStream_t stream);
int bd_fake_stream_is_empty(struct CUstream_st *stream);
#endif
