// What the launcher of the job says in the environment: braid run, torchrun, Slurm, Open MPI.
#ifndef BD_RT_CUDA_LAUNCHER_H
#define BD_RT_CUDA_LAUNCHER_H
#include <stddef.h>
#include <stdint.h>

enum { BD_LAUNCHER_HOST_BYTES = 256, BD_LAUNCHER_MOST_LINES = 64 };

typedef struct bd_launcher {
  const char *name;
  int rank, ranks, local_rank, local_ranks; // local_ranks: 0 when it is not said
  char host[BD_LAUNCHER_HOST_BYTES];        // where rank 0 listens
  int port;
  uint64_t job;      // differs between jobs of the same launcher, where it says so
  int join_seconds;  // how long the ranks wait for each other
  int may_share_gpu; // several ranks may use one GPU
  int no_graphs;     // work is started piece by piece
  int no_dnn;        // cuDNN is not used
  int no_epilogues;  // products do nothing besides
  int no_beside;     // collectives of a layer run in the rank's own stream
  int no_fan;        // so do all products of rows in groups
  int most_lines;    // of this rank, where messages go over stages; at most BD_LAUNCHER_MOST_LINES
} bd_launcher;

// Reads the environment; without a launcher this is the only rank. 0, or a BD_RT_EXIT status with
// the reason in `message`.
int bd_launcher_read(bd_launcher *out_launcher, char *message, size_t message_bytes);

// The first host of a Slurm node list (`gpu[03-07,9],login`). 0 when the list is malformed.
int bd_launcher_first_host(const char *list, char *out_host, size_t host_bytes);

// Mixes bytes into a 64-bit hash (FNV-1a); starts from BD_LAUNCHER_HASH.
#define BD_LAUNCHER_HASH UINT64_C(0xCBF29CE484222325)
uint64_t bd_launcher_hash(uint64_t hash, const void *data, size_t bytes);
#endif
