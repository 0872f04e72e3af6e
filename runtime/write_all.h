// Writing to a file all that there is.
#ifndef BD_RT_WRITE_ALL_H
#define BD_RT_WRITE_ALL_H
#include <errno.h>
#include <stddef.h>
#include <unistd.h>

// Whether all `bytes` were written; else errno says why not.
static inline int bd_rt_write_all(int fd, const void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t put = write(fd, (const char *)data + done, bytes - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return 0;
    done += (size_t)put;
  }
  return 1;
}
#endif
