// Programs that evaluate functions once each, in this process alone.
#include "runtime/cpu/rt.h"
#include "runtime/write_all.h"

#include <cblas.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// The parameters of all functions, in private pages of their own, or NULL after a line on stderr.
static char *map_parameters(const char *path, int64_t bytes) {
  struct stat about;
  void *pages = MAP_FAILED;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const int known = fd >= 0 && fstat(fd, &about) == 0;
  if (known && about.st_size != bytes) {
    bd_rt_say("%s: it has %lld bytes, not the %lld of the parameters", path,
              (long long)about.st_size, (long long)bytes);
  } else {
    if (known)
      pages = bytes ? mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0)
                    : bd_rt_pages(0);
    if (pages == MAP_FAILED) bd_rt_say("%s: %s", path, strerror(errno));
  }
  if (fd >= 0) close(fd);
  return pages == MAP_FAILED ? NULL : pages;
}

static int evaluate(bd_rt *rt, int count, const bd_rt_evaluation *evaluations, char *in, int fd) {
  int64_t work_bytes = 0, out_bytes = 0;
  for (int i = 0; i < count; i++) {
    work_bytes = most(work_bytes, evaluations[i].work_bytes);
    out_bytes = most(out_bytes, evaluations[i].out_bytes);
  }
  char *const work = bd_rt_pages(work_bytes), *const out = bd_rt_pages(out_bytes);
  for (int i = 0; i < count; i++) {
    memset(out, 0, (size_t)evaluations[i].out_bytes);
    evaluations[i].run(rt, in, work, out);
    if (!bd_rt_write_all(fd, out, (size_t)evaluations[i].out_bytes)) return errno;
    in += evaluations[i].in_bytes;
  }
  return 0;
}

int bd_rt_evaluate_main(int argc, char **argv, int count, const bd_rt_evaluation *evaluations) {
  static bd_rt rt = {.threads = 1};
  static bd_rt_device device;
  if (argc != 3) {
    bd_rt_say("usage: %s IN OUT", argv[0]);
    return BD_RT_EXIT_USAGE;
  }
  int64_t bytes = 0;
  for (int i = 0; i < count; i++)
    bytes += evaluations[i].in_bytes;
  char *const in = map_parameters(argv[1], bytes);
  if (!in) return BD_RT_EXIT_EXTERNAL;
  const int fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  openblas_set_num_threads(1);
  device.thread_scratch = bd_rt_pages(BD_RT_THREAD_SCRATCH_FLOATS * (int64_t)sizeof(float));
  rt.device = &device;
  rt.pool = bd_rt_pool_create(rt.threads, 0);
  int error = fd < 0 ? errno : evaluate(&rt, count, evaluations, in, fd);
  if (fd >= 0 && close(fd) && !error) error = errno;
  if (error) bd_rt_say("%s: %s", argv[2], strerror(error));
  bd_rt_pool_destroy(rt.pool);
  if (device.convs) device.close_convs(device.convs);
  return error ? BD_RT_EXIT_EXTERNAL : 0;
}
