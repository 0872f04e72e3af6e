// What ranks that have met exchange.
#include "runtime/cuda/meet.h"

#include "runtime/braid_rt_abi.h"
#include "runtime/cuda/meet_seats.h"
#include "runtime/cuda/meet_wire.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
  PAYLOAD_SECONDS = 120,
  ANSWER_SECONDS = 10,
  FAREWELL_SECONDS = 3,
  LAST_WORDS_SECONDS = 1,
  POLL_MILLISECONDS = 1000
};

const char *bd_meeting_reason(const bd_meeting *meeting) {
  return meeting->reason;
}

static int seats_of(const bd_meeting *m) {
  return m->rank == 0 ? m->ranks : 1;
}

static int has_ended(int fd) {
  struct pollfd look = {.fd = fd, .events = POLLRDHUP};
  return poll(&look, 1, 0) > 0;
}

static void end_silently(bd_meeting *m, int rank) {
  m->speaker = -1;
  snprintf(m->reason, sizeof m->reason, "rank %d ended early", rank);
  m->status = BD_RT_EXIT_DEAD_RANK;
}

// What ranks that ended have said: of those without a word the first, and of the others.
typedef struct last_words {
  int silent, teller, status; // ranks, or -1
} last_words;

static void hear(const bd_meeting *m, int rank, last_words *out) {
  bd_frame last;
  bd_wire_receive_last(m->seats[rank], &last, bd_wire_now() + LAST_WORDS_SECONDS);
  const int told = bd_wire_end_status(&last);
  if (!told && out->silent < 0) out->silent = rank;
  if (told && out->teller < 0) out->teller = rank, out->status = told;
}

// The connection to `rank` is at its end, and others may be: what was still said there tells why.
// A rank that ended without a word is the reason of those that tell of a failure meanwhile.
static int lose(bd_meeting *m, int rank) {
  last_words words = {-1, -1, 0};
  pthread_mutex_lock(&m->mutex);
  if (!m->status) {
    hear(m, rank, &words);
    for (int r = 0; r < seats_of(m); r++)
      if (r != rank && m->seats[r] >= 0 && has_ended(m->seats[r])) hear(m, r, &words);
    if (words.silent >= 0) {
      end_silently(m, words.silent);
    } else {
      m->speaker = m->rank == 0 ? words.teller : -1;
      m->status = words.status;
    }
  }
  pthread_mutex_unlock(&m->mutex);
  return m->status;
}

// Waits for something from `rank`, while the end of any rank ends the wait.
static int await(bd_meeting *m, int rank) {
  const int count = seats_of(m);
  for (int r = 0; r < count; r++)
    m->polls[r] = (struct pollfd){.fd = m->seats[r], .events = r == rank ? POLLIN : POLLRDHUP};
  for (;;) {
    const int ready = poll(m->polls, (nfds_t)count, POLL_MILLISECONDS);
    if (ready < 0 && errno != EINTR) return lose(m, rank);
    for (int r = 0; ready > 0 && r < count; r++)
      if (r != rank && m->polls[r].revents) return lose(m, r);
    if (ready > 0 && m->polls[rank].revents) return 0;
  }
}

static int receive(bd_meeting *m, int rank, void *data, size_t bytes) {
  bd_frame frame;
  if (m->status || await(m, rank)) return m->status;
  const int fd = m->seats[rank];
  const ssize_t head = recv(fd, &frame, sizeof frame, MSG_PEEK | MSG_DONTWAIT);
  if (head == (ssize_t)sizeof frame && frame.kind == BD_FRAME_END) return lose(m, rank);
  const double deadline = bd_wire_now() + PAYLOAD_SECONDS;
  if (!bd_wire_receive(fd, &frame, sizeof frame, deadline)) return lose(m, rank);
  if (frame.magic != BD_FRAME_MAGIC || frame.kind != BD_FRAME_DATA || frame.bytes != bytes) {
    pthread_mutex_lock(&m->mutex);
    if (!m->status) {
      snprintf(m->reason, sizeof m->reason, "rank %d sent what was not expected", rank);
      m->status = BD_RT_EXIT_INTERNAL;
    }
    pthread_mutex_unlock(&m->mutex);
    return m->status;
  }
  return bd_wire_receive(fd, data, bytes, deadline) ? 0 : lose(m, rank);
}

static int give(bd_meeting *m, int rank, const void *data, size_t bytes) {
  if (m->status) return m->status;
  assert(bytes <= BD_MEETING_MOST_BYTES);
  const double deadline = bd_wire_now() + PAYLOAD_SECONDS;
  if (bd_wire_send_frame(m->seats[rank], BD_FRAME_DATA, 0, data, bytes, deadline)) return 0;
  return lose(m, rank);
}

int bd_meeting_gather(bd_meeting *m, const void *own, size_t bytes, void *all) {
  if (m->rank) return give(m, 0, own, bytes);
  memcpy(all, own, bytes);
  for (int r = 1; r < m->ranks && !m->status; r++)
    receive(m, r, (char *)all + (size_t)r * bytes, bytes);
  return m->status;
}

static int give_words(bd_meeting *m, const uint32_t *words, size_t count) {
  int32_t any = 0;
  for (size_t i = 0; i < count && !any; i++)
    any = words[i] != 0;
  give(m, 0, &any, sizeof any);
  return any ? give(m, 0, words, count * sizeof *words) : m->status;
}

int bd_meeting_merge(bd_meeting *m, uint32_t *words, size_t count, uint32_t *more) {
  if (m->rank) return give_words(m, words, count);
  for (int r = 1; r < m->ranks && !m->status; r++) {
    int32_t any = 0;
    if (receive(m, r, &any, sizeof any) || !any) continue;
    if (receive(m, r, more, count * sizeof *more)) break;
    for (size_t i = 0; i < count; i++)
      words[i] |= more[i];
  }
  return m->status;
}

int bd_meeting_scatter(bd_meeting *m, const void *all, size_t bytes, void *own) {
  if (m->rank) return receive(m, 0, own, bytes);
  memcpy(own, all, bytes);
  for (int r = 1; r < m->ranks && !m->status; r++)
    give(m, r, (const char *)all + (size_t)r * bytes, bytes);
  return m->status;
}

int bd_meeting_broadcast(bd_meeting *m, void *data, size_t bytes) {
  if (m->rank) return receive(m, 0, data, bytes);
  for (int r = 1; r < m->ranks && !m->status; r++)
    give(m, r, data, bytes);
  return m->status;
}

// The first rank whose connection has ended, within so many milliseconds (-1: whenever) or until
// `stop`, a file (-1: none), can be read; or -1. By any thread.
static int find_ended(const bd_meeting *m, int stop, int milliseconds) {
  const int count = seats_of(m);
  struct pollfd *const polls = calloc((size_t)count + 1, sizeof *polls);
  int ended = -1;
  if (!polls) return -1;
  polls[count] = (struct pollfd){.fd = stop, .events = POLLIN};
  for (int r = 0; r < count; r++)
    polls[r] = (struct pollfd){.fd = m->seats[r], .events = POLLRDHUP};
  while (poll(polls, (nfds_t)count + 1, milliseconds) < 0 && errno == EINTR)
    continue;
  for (int r = count - 1; r >= 0; r--)
    if (polls[r].revents) ended = r;
  free(polls);
  return ended;
}

int bd_meeting_watch(bd_meeting *m) {
  if (m->status) return m->status;
  const int ended = find_ended(m, -1, 0);
  return ended < 0 ? 0 : lose(m, ended);
}

int bd_meeting_await_end(const bd_meeting *m, int stop) {
  return find_ended(m, stop, -1) >= 0;
}

static int ask_to_speak(bd_meeting *m, int status) {
  bd_frame answer;
  const double deadline = bd_wire_now() + ANSWER_SECONDS;
  bd_wire_send_frame(m->seats[0], BD_FRAME_END, status, NULL, 0, deadline);
  shutdown(m->seats[0], SHUT_WR);
  pthread_mutex_lock(&m->mutex);
  const int ended = bd_wire_receive_last(m->seats[0], &answer, deadline);
  const int told = bd_wire_end_status(&answer);
  const int granted = answer.magic == BD_FRAME_MAGIC && answer.kind == BD_FRAME_SPEAK;
  if (told)
    m->status = told;
  else if (ended && !granted)
    end_silently(m, 0);
  pthread_mutex_unlock(&m->mutex);
  return m->status;
}

int bd_meeting_claim(bd_meeting *m, int status) {
  return m->rank == 0 || m->status ? bd_meeting_watch(m) : ask_to_speak(m, status);
}

void bd_meeting_end(bd_meeting *m, int status) {
  const double deadline = bd_wire_now() + FAREWELL_SECONDS;
  char rest[4096];
  for (int r = 0; r < seats_of(m); r++) {
    if (m->seats[r] < 0) continue;
    bd_wire_send_frame(m->seats[r], r == m->speaker ? BD_FRAME_SPEAK : BD_FRAME_END, status, NULL,
                       0, deadline);
    shutdown(m->seats[r], SHUT_WR);
  }
  // What is unread when a connection closes would take the frame back from the other side.
  for (int r = 0; r < seats_of(m); r++)
    while (m->seats[r] >= 0 && bd_wire_receive(m->seats[r], rest, 1, deadline))
      while (recv(m->seats[r], rest, sizeof rest, MSG_DONTWAIT) > 0)
        ;
}

void bd_meeting_leave(bd_meeting *m) {
  if (!m) return;
  for (int r = 0; m->seats && r < seats_of(m); r++)
    if (m->seats[r] >= 0) close(m->seats[r]);
  free(m->seats);
  free(m->polls);
  pthread_mutex_destroy(&m->mutex);
  free(m);
}
