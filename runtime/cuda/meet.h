// Where the ranks of a job meet: every rank holds one TCP connection to rank 0, over which small
// host values are exchanged and the end of any rank is seen.
#ifndef BD_RT_CUDA_MEET_H
#define BD_RT_CUDA_MEET_H
#include <stddef.h>
#include <stdint.h>

typedef struct bd_meeting bd_meeting;

typedef struct bd_meeting_place {
  const char *host;
  int port;
  uint64_t cookie; // the same for all ranks of a job, another for other jobs and programs
  int rank, ranks;
  int seconds; // to wait for all
} bd_meeting_place;

// Joins; rank 0 listens. Strangers (wrong cookie, malformed or silent) are turned away and change
// nothing. 0, or a BD_RT_EXIT status with the reason in `message`.
int bd_meeting_join(const bd_meeting_place *place, bd_meeting **out_meeting, char *message,
                    size_t message_bytes);

// Collective; all ranks call the same one with the same number of bytes (at most
// BD_MEETING_MOST_BYTES). They return 0, or the status with which the job ends; then
// bd_meeting_reason says why, or "" when the rank that failed has said so itself.
enum { BD_MEETING_MOST_BYTES = 64 << 20 };
// Rank 0 gets the pieces of all ranks, one after another; others may pass NULL for `all`.
int bd_meeting_gather(bd_meeting *meeting, const void *own, size_t bytes, void *all);
// Each rank gets its own of rank 0's pieces.
int bd_meeting_scatter(bd_meeting *meeting, const void *all, size_t bytes, void *own);
// Words of all ranks or-ed together, in place on rank 0, which needs room for as many in `more`.
// Ranks that have only zeros send none.
int bd_meeting_merge(bd_meeting *meeting, uint32_t *words, size_t count, uint32_t *more);
// All get rank 0's data.
int bd_meeting_broadcast(bd_meeting *meeting, void *data, size_t bytes);

// Without waiting: 0, or the status with which the job ends because of another rank.
int bd_meeting_watch(bd_meeting *meeting);
const char *bd_meeting_reason(const bd_meeting *meeting);

// Waits, on a thread of its own, until a rank's connection has ended: 1; 0 when `stop`, a file, can
// be read first. Reads nothing.
int bd_meeting_await_end(const bd_meeting *meeting, int stop);

// For a rank that fails: 0 when it is the one to say why the job ends with `status`, of all ranks
// that fail at once. Else the status with which it ends instead, because of another rank, as above.
// A rank other than 0 tells it that way: what is left for it is bd_meeting_end.
int bd_meeting_claim(bd_meeting *meeting, int status);
// Tells the other ranks to end with `status`, and waits a moment for them to hear it.
void bd_meeting_end(bd_meeting *meeting, int status);
// Frees. The last that the ranks did was to hear rank 0: one that leaves earlier seems dead. NULL
// is nothing.
void bd_meeting_leave(bd_meeting *meeting);
#endif
