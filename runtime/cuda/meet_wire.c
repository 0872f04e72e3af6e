#include "runtime/cuda/meet_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
  CONNECT_MILLISECONDS = 5000,
  BACKLOG = 1024,
  // A node that has vanished is taken for dead after SILENCE_SECONDS, the last of them with PROBES.
  // A rank that its watchdog ends then, and that takes leave of others that have vanished too,
  // still ends within 30 seconds.
  SILENCE_SECONDS = 20,
  PROBES = 3,
  PROBE_SECONDS = 4,
};

int bd_wire_end_status(const bd_frame *frame) {
  const int told = frame->magic == BD_FRAME_MAGIC && frame->kind == BD_FRAME_END &&
                   frame->bytes == 0 && frame->status > 0 && frame->status < 256;
  return told ? frame->status : 0;
}

double bd_wire_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int listen_at(const struct sockaddr *address, socklen_t bytes) {
  const int on = 1, off = 0;
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->sa_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (!bind(fd, address, bytes) && !listen(fd, BACKLOG)) return fd;
  const int reason = errno;
  close(fd);
  errno = reason;
  return -1;
}

int bd_wire_listen(int port, int here_only) {
  struct sockaddr_in old = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  const struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
  if (here_only) old.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = here_only ? -1 : listen_at((const struct sockaddr *)&any, sizeof any);
  if (fd >= 0 || (!here_only && errno == EADDRINUSE)) return fd;
  return listen_at((const struct sockaddr *)&old, sizeof old); // or a machine without IPv6
}

void bd_wire_prepare(int fd) {
  const int on = 1, probes = PROBES, interval = PROBE_SECONDS;
  const int idle = SILENCE_SECONDS - PROBES * PROBE_SECONDS;
  const unsigned unanswered = SILENCE_SECONDS * 1000; // milliseconds, of what was sent
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on); // a node that vanished
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered, sizeof unanswered);
}

static int connect_to(const struct addrinfo *address) {
  const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  int failure = connect(fd, address->ai_addr, address->ai_addrlen) ? errno : 0;
  if (failure == EINPROGRESS) {
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    socklen_t bytes = sizeof failure;
    if (poll(&wait, 1, CONNECT_MILLISECONDS) != 1 ||
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &bytes))
      failure = ETIMEDOUT;
  }
  if (!failure) return fd;
  close(fd);
  return -1;
}

int bd_wire_connect(const char *host, int port, int *out_unknown) {
  char service[16];
  struct addrinfo *found = NULL;
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  snprintf(service, sizeof service, "%d", port);
  *out_unknown = getaddrinfo(host, service, &hints, &found) != 0;
  if (*out_unknown) return -1;
  int fd = -1;
  for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
    fd = connect_to(a);
  freeaddrinfo(found);
  if (fd >= 0) bd_wire_prepare(fd);
  return fd;
}

// Waits for `events`. 0 when the deadline has passed.
static int await(int fd, short events, double deadline) {
  for (;;) {
    const double left = deadline > 0 ? deadline - bd_wire_now() : 1;
    if (left <= 0) return 0;
    struct pollfd wait = {.fd = fd, .events = events};
    const int ready = poll(&wait, 1, left < 1 ? (int)(left * 1000) + 1 : 1000);
    if (ready > 0) return 1;
    if (ready < 0 && errno != EINTR) return 0;
  }
}

int bd_wire_send(int fd, const void *data, size_t bytes, double deadline) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t put = send(fd, (const char *)data + done, bytes - done, MSG_NOSIGNAL);
    if (put > 0)
      done += (size_t)put;
    else if (put < 0 && errno == EINTR)
      continue;
    else if (put == 0 || errno != EAGAIN || !await(fd, POLLOUT, deadline))
      return 0;
  }
  return 1;
}

int bd_wire_receive(int fd, void *data, size_t bytes, double deadline) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = recv(fd, (char *)data + done, bytes - done, 0);
    if (got > 0)
      done += (size_t)got;
    else if (got < 0 && errno == EINTR)
      continue;
    else if (got == 0 || errno != EAGAIN || !await(fd, POLLIN, deadline))
      return 0;
  }
  return 1;
}

int bd_wire_receive_last(int fd, bd_frame *out_last, double deadline) {
  unsigned char data[4096];
  size_t kept = 0; // of the last bytes
  int ended = 0;
  do {
    const ssize_t got = recv(fd, data + kept, sizeof data - kept, MSG_DONTWAIT);
    ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    const size_t all = kept + (got > 0 ? (size_t)got : 0);
    kept = all < sizeof *out_last ? all : sizeof *out_last;
    memmove(data, data + all - kept, kept);
  } while (!ended && await(fd, POLLIN, deadline));
  memset(out_last, 0, sizeof *out_last);
  if (kept == sizeof *out_last) memcpy(out_last, data, sizeof *out_last);
  return ended;
}

int bd_wire_send_frame(int fd, uint32_t kind, int32_t status, const void *data, size_t bytes,
                       double deadline) {
  const bd_frame frame = {BD_FRAME_MAGIC, kind, (uint32_t)bytes, status};
  return bd_wire_send(fd, &frame, sizeof frame, deadline) &&
         (bytes == 0 || bd_wire_send(fd, data, bytes, deadline));
}
