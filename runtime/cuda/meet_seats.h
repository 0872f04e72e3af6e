// A meeting's own: the connections of its ranks.
#ifndef BD_RT_CUDA_MEET_SEATS_H
#define BD_RT_CUDA_MEET_SEATS_H
#include "runtime/cuda/meet.h"

struct pollfd;

struct bd_meeting {
  int rank, ranks;
  int *seats; // rank 0: of every rank, -1 for itself; others: of rank 0
  struct pollfd *polls;
  int status; // not 0: the job ends
  char reason[256];
};
#endif
