// Runs parts of a test in processes of their own, because the fake device ends the process that
// misuses it, and chooses its order of work once per process.
#ifndef BD_TESTS_DEVICE_CHILDREN_H
#define BD_TESTS_DEVICE_CHILDREN_H
#include "tests/device/fake/device.h"
#include "tests/runtime/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN_MAX = 8, CHILDREN_TEXT = 4096 };

typedef void (*children_body)(int rank);

// How the processes ended, and what the first of them wrote on stderr.
typedef struct children_end {
  int status[CHILDREN_MAX];
  char text[CHILDREN_TEXT];
} children_end;

// What a child gets of its parent and of its siblings: bytes that all see.
static void *children_shared;

static inline void children_share(size_t bytes) {
  children_shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (children_shared == MAP_FAILED) abort();
}

static inline void children_set(const char *name, long long value) {
  char text[32];
  snprintf(text, sizeof text, "%lld", value);
  setenv(name, text, 1);
}

static inline children_end children_run(int count, int seed, children_body body) {
  children_end end = {{0}, ""};
  pid_t processes[CHILDREN_MAX];
  int ends[2];
  if (pipe(ends)) abort();
  for (int rank = 0; rank < count; rank++) {
    processes[rank] = fork();
    if (processes[rank] < 0) abort();
    if (processes[rank] == 0) {
      dup2(ends[1], STDERR_FILENO);
      children_set("BD_FAKE_RANK", rank);
      children_set("BD_FAKE_SEED", seed);
      check_failures = 0;
      if (cudaSetDevice(0)) abort();
      body(rank);
      _exit(check_failures ? 1 : 0);
    }
  }
  close(ends[1]);
  for (int rank = 0; rank < count; rank++) {
    int status;
    waitpid(processes[rank], &status, 0);
    end.status[rank] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  size_t length = 0;
  for (ssize_t got; length < sizeof end.text - 1 &&
                    (got = read(ends[0], end.text + length, sizeof end.text - 1 - length)) > 0;)
    length += (size_t)got;
  close(ends[0]);
  return end;
}

// All processes end well.
static inline void children_pass(const char *what, int count, int seed, children_body body) {
  const children_end end = children_run(count, seed, body);
  for (int rank = 0; rank < count; rank++)
    if (end.status[rank]) {
      fprintf(stderr, "FAILED: %s: seed %d, rank %d ended with %d: %s\n", what, seed, rank,
              end.status[rank], end.text);
      check_failures++;
    }
}

// At least one process is ended by the fake device, which says `words`.
static inline void children_fault(const char *words, int count, children_body body) {
  const children_end end = children_run(count, 1, body);
  int faults = 0;
  for (int rank = 0; rank < count; rank++)
    faults += end.status[rank] == BD_FAKE_EXIT;
  if (faults && strstr(end.text, words)) return;
  fprintf(stderr, "FAILED: '%s' is not reported; %d processes were ended; stderr: %s\n", words,
          faults, end.text);
  check_failures++;
}
#endif
