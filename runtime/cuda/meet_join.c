// How ranks find each other.
#include "runtime/braid_rt_abi.h"
#include "runtime/cuda/meet_seats.h"
#include "runtime/cuda/meet_wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WAITING = 128, HELLO_SECONDS = 10, RETRY_MILLISECONDS = 100, SLACK_SECONDS = 15 };

typedef struct greeting { // of HELLO, as it comes in
  bd_frame frame;
  bd_hello hello;
} greeting;

typedef struct visitor { // connected, but not known yet
  int fd;
  double deadline;
  size_t done;
  greeting greeting;
} visitor;

typedef struct reception {
  const bd_meeting_place *place;
  bd_meeting *meeting;
  double deadline;
  int door, seated;
  int visitors;
  visitor visitor[WAITING];
} reception;

static void turn_away(reception *r, int index) {
  close(r->visitor[index].fd);
  r->visitor[index] = r->visitor[--r->visitors];
}

static void let_in(reception *r) {
  for (;;) {
    const int fd = accept4(r->door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    if (r->visitors == WAITING) turn_away(r, 0);
    bd_wire_prepare(fd);
    r->visitor[r->visitors++] = (visitor){.fd = fd, .deadline = bd_wire_now() + HELLO_SECONDS};
  }
}

// Whether a whole greeting is this job's, of a rank that is still missing.
static int is_welcome(const reception *r, const greeting *g) {
  return g->hello.cookie == r->place->cookie && g->hello.ranks == r->place->ranks &&
         g->hello.rank > 0 && g->hello.rank < r->place->ranks &&
         r->meeting->seats[g->hello.rank] < 0;
}

// Reads on. 0 when the visitor has gone from the list.
static int listen_to(reception *r, int index) {
  visitor *const v = &r->visitor[index];
  const ssize_t got =
      recv(v->fd, (char *)&v->greeting + v->done, sizeof v->greeting - v->done, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 1;
  if (got > 0) v->done += (size_t)got;
  const bd_frame *const frame = &v->greeting.frame;
  const int known =
      v->done < sizeof *frame || (frame->magic == BD_FRAME_MAGIC && frame->kind == BD_FRAME_HELLO &&
                                  frame->bytes == sizeof v->greeting.hello);
  if (got <= 0 || !known) {
    turn_away(r, index);
    return 0;
  }
  if (v->done < sizeof v->greeting) return 1;
  if (!is_welcome(r, &v->greeting)) {
    bd_wire_send_frame(v->fd, BD_FRAME_REFUSED, 0, NULL, 0, bd_wire_now() + 1);
    turn_away(r, index);
    return 0;
  }
  r->meeting->seats[v->greeting.hello.rank] = v->fd;
  r->seated++;
  *v = r->visitor[--r->visitors];
  return 0;
}

static void hear_visitors(reception *r, const struct pollfd *polls, int count) {
  const double now = bd_wire_now();
  for (int i = count - 1; i >= 0; i--) {
    if (polls[i].revents && !listen_to(r, i)) continue;
    if (r->visitor[i].deadline < now) turn_away(r, i);
  }
}

static int missing(const reception *r, char *message, size_t message_bytes) {
  int first = 1;
  while (first < r->place->ranks && r->meeting->seats[first] >= 0)
    first++;
  snprintf(message, message_bytes,
           "%d of %d ranks have joined within %d seconds; rank %d is the first that is missing",
           r->seated, r->place->ranks, r->place->seconds, first);
  return BD_RT_EXIT_DEAD_RANK;
}

static int receive_all(reception *r, char *message, size_t message_bytes) {
  const int ranks = r->place->ranks;
  struct pollfd *const polls = calloc((size_t)ranks + WAITING + 1, sizeof *polls);
  int status = polls ? 0 : BD_RT_EXIT_EXTERNAL;
  if (!polls) snprintf(message, message_bytes, "out of memory");
  while (!status && r->seated < ranks) {
    const int visitors = r->visitors;
    if (bd_wire_now() > r->deadline) status = missing(r, message, message_bytes);
    polls[0] = (struct pollfd){.fd = r->door, .events = POLLIN};
    for (int i = 0; i < visitors; i++)
      polls[1 + i] = (struct pollfd){.fd = r->visitor[i].fd, .events = POLLIN};
    for (int i = 0; i < ranks; i++)
      polls[1 + visitors + i] = (struct pollfd){.fd = r->meeting->seats[i], .events = POLLRDHUP};
    if (status || poll(polls, (nfds_t)(1 + visitors + ranks), RETRY_MILLISECONDS) <= 0) continue;
    for (int i = 1; i < ranks; i++)
      if (polls[1 + visitors + i].revents) {
        snprintf(message, message_bytes, "rank %d ended early", i);
        status = BD_RT_EXIT_DEAD_RANK;
      }
    hear_visitors(r, polls + 1, visitors);
    if (polls[0].revents) let_in(r);
  }
  free(polls);
  return status;
}

static void pause_briefly(void) {
  nanosleep(&(struct timespec){.tv_nsec = RETRY_MILLISECONDS * 1000000L}, NULL);
}

// More connections than a process may have by default.
static void raise_limits(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit)) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

static int host_ranks(const bd_meeting_place *place, bd_meeting *m, char *message,
                      size_t message_bytes) {
  reception r = {.place = place, .meeting = m, .seated = 1};
  const int here = !strcmp(place->host, "127.0.0.1") || !strcmp(place->host, "localhost");
  r.deadline = bd_wire_now() + place->seconds;
  raise_limits();
  while ((r.door = bd_wire_listen(place->port, here)) < 0) {
    if (errno != EADDRINUSE || bd_wire_now() > r.deadline) {
      snprintf(message, message_bytes, "cannot listen on port %d: %s", place->port,
               strerror(errno));
      return BD_RT_EXIT_EXTERNAL;
    }
    pause_briefly();
  }
  int status = receive_all(&r, message, message_bytes);
  close(r.door);
  while (r.visitors > 0)
    turn_away(&r, 0);
  for (int i = 1; !status && i < place->ranks; i++)
    if (!bd_wire_send_frame(m->seats[i], BD_FRAME_WELCOME, 0, NULL, 0, r.deadline + 1)) {
      snprintf(message, message_bytes, "rank %d ended early", i);
      status = BD_RT_EXIT_DEAD_RANK;
    }
  return status;
}

// One try to be let in. 1 when it was; else `out_status` is set when there is no sense in another.
static int visit(const bd_meeting_place *place, bd_meeting *m, double deadline,
                 const char **out_why, int *out_status) {
  const greeting g = {{BD_FRAME_MAGIC, BD_FRAME_HELLO, sizeof g.hello, 0},
                      {place->cookie, place->rank, place->ranks}};
  bd_frame answer = {0};
  int unknown = 0;
  const int fd = bd_wire_connect(place->host, place->port, &unknown);
  *out_why = unknown ? "the host has no address" : "nobody answers there";
  if (fd < 0) return 0;
  const int heard = bd_wire_send(fd, &g, sizeof g, deadline) &&
                    bd_wire_receive(fd, &answer, sizeof answer, deadline) &&
                    answer.magic == BD_FRAME_MAGIC;
  if (heard && answer.kind == BD_FRAME_WELCOME) {
    m->seats[0] = fd;
    return 1;
  }
  if (heard) *out_status = bd_wire_end_status(&answer);
  *out_why = heard && answer.kind == BD_FRAME_REFUSED
                 ? "another job listens there, or this rank has joined already"
                 : "what answers there is no rank of this program";
  close(fd);
  return 0;
}

static int visit_host(const bd_meeting_place *place, bd_meeting *m, char *message,
                      size_t message_bytes) {
  const double deadline = bd_wire_now() + place->seconds;
  const char *why = "";
  int status = 0;
  while (!visit(place, m, deadline + SLACK_SECONDS, &why, &status)) {
    message[0] = 0;
    if (status) return status;
    if (bd_wire_now() > deadline) {
      snprintf(message, message_bytes, "rank %d cannot join rank 0 at %s port %d: %s", place->rank,
               place->host, place->port, why);
      return BD_RT_EXIT_DEAD_RANK;
    }
    pause_briefly();
  }
  return 0;
}

int bd_meeting_join(const bd_meeting_place *place, bd_meeting **out_meeting, char *message,
                    size_t message_bytes) {
  bd_meeting *const m = calloc(1, sizeof *m);
  int status = 0;
  if (m) {
    *m = (bd_meeting){.rank = place->rank,
                      .ranks = place->ranks,
                      .speaker = -1,
                      .mutex = PTHREAD_MUTEX_INITIALIZER};
    m->seats = calloc((size_t)place->ranks, sizeof *m->seats);
    m->polls = calloc((size_t)place->ranks, sizeof *m->polls);
  }
  if (!m || !m->seats || !m->polls) {
    snprintf(message, message_bytes, "out of memory");
    status = BD_RT_EXIT_EXTERNAL;
  } else {
    for (int r = 0; r < place->ranks; r++)
      m->seats[r] = -1;
    if (place->ranks > 1)
      status = place->rank ? visit_host(place, m, message, message_bytes)
                           : host_ranks(place, m, message, message_bytes);
  }
  if (status && m && m->seats && place->rank == 0) bd_meeting_end(m, status);
  if (status && m) bd_meeting_leave(m);
  *out_meeting = status ? NULL : m;
  return status;
}
