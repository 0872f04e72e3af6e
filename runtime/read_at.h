// Reading a piece of a file that others read as well.
#ifndef BD_RT_READ_AT_H
#define BD_RT_READ_AT_H
#include <errno.h>
#include <stdint.h>
#include <unistd.h>

// All `bytes` at `offset`, or 0 when the file ends before or cannot be read.
static inline int bd_rt_read_at(int fd, void *out, int64_t bytes, int64_t offset) {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t got = pread(fd, (char *)out + done, (size_t)(bytes - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return 0;
    done += got;
  }
  return 1;
}
#endif
