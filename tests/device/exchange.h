// What tests of the fake NCCL among processes share.
#ifndef BD_TESTS_DEVICE_EXCHANGE_H
#define BD_TESTS_DEVICE_EXCHANGE_H
#include "tests/device/children.h"

#include <dirent.h>
#include <nccl.h>

enum { RANKS = 4, COUNT = 1000 };

static cudaStream_t stream;

// What a call on a nonblocking communicator returns at last; not all say that they are in progress.
static inline ncclResult_t settled(ncclComm_t comm, ncclResult_t result) {
  if (result == ncclSuccess) result = ncclInProgress;
  while (result == ncclInProgress) {
    usleep(100);
    if (ncclCommGetAsyncError(comm, &result)) _exit(1);
  }
  return result;
}

static inline void settle(ncclComm_t comm, ncclResult_t result) {
  check_true("a call of NCCL", settled(comm, result) == ncclSuccess);
}

static inline void leave(ncclComm_t comm) {
  settle(comm, ncclCommFinalize(comm));
  check_true("a communicator is left", ncclCommDestroy(comm) == ncclSuccess);
}

// Rank 0 makes the identity; all join. The number is the communicator's.
static inline ncclComm_t join_one(int rank, int number) {
  typedef struct door {
    _Atomic int open;
    ncclUniqueId id;
  } door;
  door *const d = (door *)children_shared + number;
  ncclComm_t comm;
  if (rank == 0) {
    ncclGetUniqueId(&d->id);
    d->open = 1;
  }
  while (!d->open)
    usleep(1000);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, RANKS, d->id, rank, &config);
  settle(comm, result);
  return comm;
}

static inline ncclComm_t join(int rank) {
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) _exit(1);
  return join_one(rank, 0);
}

static inline float *filled(int64_t count, float first) {
  float *const host = malloc((size_t)count * sizeof *host);
  void *at;
  for (int64_t i = 0; i < count; i++)
    host[i] = first + (float)i;
  if (cudaMalloc(&at, (size_t)count * sizeof *host)) _exit(1);
  cudaMemcpy(at, host, (size_t)count * sizeof *host, cudaMemcpyHostToDevice);
  return at;
}

static inline void fault(const char *words, children_body body) {
  memset(children_shared, 0, 4096);
  children_fault(words, RANKS, body);
}

static inline void pass(const char *what, int seed, children_body body) {
  memset(children_shared, 0, 4096);
  children_pass(what, RANKS, seed, body);
}

// What processes that were ended left behind.
static inline void remove_folder(const char *path) {
  DIR *const folder = opendir(path);
  for (const struct dirent *entry; folder && (entry = readdir(folder));)
    unlinkat(dirfd(folder), entry->d_name, 0);
  if (folder) closedir(folder);
  rmdir(path);
}

// A folder for what ranks leave to find each other, which is `path` from then on.
static inline void exchange_begin(char *path) {
  if (!mkdtemp(path)) abort();
  setenv("BD_FAKE_FOLDER", path, 1);
  setenv("BD_FAKE_STUCK_SECONDS", "3", 1);
  children_share(4096);
}

static inline int exchange_end(const char *path) {
  remove_folder(path);
  return check_result(0);
}
#endif
