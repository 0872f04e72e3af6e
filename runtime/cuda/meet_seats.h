// A meeting's own: the connections of its ranks.
#ifndef BD_RT_CUDA_MEET_SEATS_H
#define BD_RT_CUDA_MEET_SEATS_H
#include "runtime/cuda/meet.h"

#include <pthread.h>
#include <stdatomic.h>

struct pollfd;

struct bd_meeting {
  int rank, ranks;
  int *seats; // rank 0: of every rank, -1 for itself; others: of rank 0
  struct pollfd *polls;
  // What is known of the end, once: by the rank's own thread, or by the one that watches it.
  pthread_mutex_t mutex;
  atomic_int status; // not 0: the job ends
  int speaker;       // rank 0: the rank that is to say why, or -1
  char reason[256];
};
#endif
