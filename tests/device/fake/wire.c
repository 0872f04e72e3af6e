#include "tests/device/fake/wire.h"

#include "tests/device/fake/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PATH_BYTES = 512 };

static const char *path_of(char *path, const char *id, const char *ending) {
  const char *const folder = getenv("BD_FAKE_FOLDER");
  snprintf(path, PATH_BYTES, "%s/nccl-%s%s", folder ? folder : "/tmp", id, ending);
  return path;
}

static const char *data_path(char *path, const char *id, int from, int to) {
  char ending[32];
  snprintf(ending, sizeof ending, to < 0 ? ".%d" : ".%d-%d", from, to);
  return path_of(path, id, ending);
}

void bd_fake_wire_create(const char *call, const char *id) {
  char partial[PATH_BYTES], path[PATH_BYTES];
  const int fd = open(path_of(partial, id, ".partial"), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(bd_fake_shared)) || rename(partial, path_of(path, id, "")))
    bd_fake_fault(call, "%s: %s", partial, strerror(errno));
  close(fd);
}

// The name of this process's machine, as a number. NCCL asks the environment for one that stands
// for it.
static uint64_t host_number(void) {
  char name[256] = "";
  const char *const id = getenv("NCCL_HOSTID");
  if (!id) gethostname(name, sizeof name - 1);
  return bd_fake_sum_of(id ? id : name, strlen(id ? id : name));
}

void bd_fake_wire_enter(const char *call, bd_fake_wire *wire) {
  char path[PATH_BYTES];
  if (wire->ranks < 1 || wire->ranks > BD_FAKE_MAX_RANKS || wire->rank < 0 ||
      wire->rank >= wire->ranks)
    bd_fake_fault(call, "rank %d of %d", wire->rank, wire->ranks);
  const int fd = open(path_of(path, wire->id, ""), O_RDWR);
  if (fd < 0) bd_fake_fault(call, "no one has made the identity %s", wire->id);
  bd_fake_shared *const shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (shared == MAP_FAILED) bd_fake_fault(call, "%s: %s", path, strerror(errno));
  int nobody = 0, unknown = 0;
  if (!atomic_compare_exchange_strong(&shared->ranks, &unknown, wire->ranks) &&
      unknown != wire->ranks)
    bd_fake_fault(call, "%d ranks here, %d elsewhere", wire->ranks, unknown);
  shared->member[wire->rank].host = host_number();
  if (!atomic_compare_exchange_strong(&shared->member[wire->rank].process, &nobody, getpid()))
    bd_fake_fault(call, "rank %d has joined already", wire->rank);
  wire->shared = shared;
}

int bd_fake_wire_is_complete(const bd_fake_wire *wire) {
  char path[PATH_BYTES];
  for (int r = 0; r < wire->ranks; r++)
    if (!wire->shared->member[r].process) return 0;
  unlink(path_of(path, wire->id, ""));
  return 1;
}

// Peers may still read what this rank sent last: whoever leaves last takes all files away.
void bd_fake_wire_leave(bd_fake_wire *wire) {
  char path[PATH_BYTES];
  wire->shared->member[wire->rank].left = 1;
  if (++wire->shared->gone == wire->ranks)
    for (int from = 0; from < wire->ranks; from++)
      for (int to = -1; to < wire->ranks; to++)
        unlink(data_path(path, wire->id, from, to));
  munmap(wire->shared, sizeof *wire->shared);
  wire->shared = NULL;
}

static int transfer(const char *path, int flags, size_t offset, void *data, size_t bytes) {
  const int fd = open(path, flags, 0600);
  size_t done = 0;
  while (fd >= 0 && done < bytes) {
    char *const at = (char *)data + done;
    const ssize_t count = flags == O_RDONLY ? pread(fd, at, bytes - done, (off_t)(offset + done))
                                            : pwrite(fd, at, bytes - done, (off_t)(offset + done));
    if (count <= 0) break;
    done += (size_t)count;
  }
  if (fd >= 0) close(fd);
  return fd >= 0 && done == bytes;
}

void bd_fake_wire_write(const bd_fake_wire *wire, int to, const void *data, size_t bytes) {
  char path[PATH_BYTES];
  data_path(path, wire->id, wire->rank, to);
  if (!transfer(path, O_WRONLY | O_CREAT, 0, (void *)(uintptr_t)data, bytes))
    bd_fake_fault("wire", "%s cannot be written: %s", path, strerror(errno));
}

void bd_fake_wire_read(const bd_fake_wire *wire, int from, int to, size_t offset, void *data,
                       size_t bytes) {
  char path[PATH_BYTES];
  data_path(path, wire->id, from, to);
  if (!transfer(path, O_RDONLY, offset, data, bytes))
    bd_fake_fault("wire", "%s cannot be read: %s", path, strerror(errno));
}

// A process that has ended may still stand in the system's table, as a zombie.
static int is_dead(int process) {
  char path[64], state = 'Z';
  snprintf(path, sizeof path, "/proc/%d/stat", process);
  FILE *const file = fopen(path, "r");
  if (!file) return 1;
  if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
  fclose(file);
  return state == 'Z' || state == 'X';
}

int bd_fake_wire_is_dead(const bd_fake_wire *wire, int rank) {
  return rank != wire->rank && is_dead(wire->shared->member[rank].process);
}
