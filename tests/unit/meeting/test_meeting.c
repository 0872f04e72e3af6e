// Ranks that meet over this machine's loopback, each a process; and what strangers can do to them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/braid_rt_abi.h"
#include "runtime/cuda/meet.h"
#include "runtime/cuda/meet_seats.h"
#include "runtime/cuda/meet_wire.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 8, FAILED = 77, DEFAULT_SECONDS = 20 };

static int port;

// One that nobody listens at for the moment.
static int set_port(void **state) {
  (void)state;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof address;
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(fd, (struct sockaddr *)&address, bytes) ||
      getsockname(fd, (struct sockaddr *)&address, &bytes))
    return 1;
  port = ntohs(address.sin_port);
  return close(fd);
}

static bd_meeting_place place_of(int rank, int ranks) {
  return (bd_meeting_place){.host = "127.0.0.1",
                            .port = port,
                            .cookie = 0x1234,
                            .rank = rank,
                            .ranks = ranks,
                            .seconds = DEFAULT_SECONDS};
}

// In a rank's process, where an assertion would end only itself.
#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "rank %d: line %d: %s\n", rank, __LINE__, #condition);                       \
      _exit(FAILED);                                                                               \
    }                                                                                              \
  } while (0)

// Runs `body` in a process per rank and expects that it returns `expected` in each.
static void run_ranks(int ranks, int (*body)(int rank, int ranks), const int *expected) {
  pid_t children[MOST_RANKS];
  fflush(NULL);
  for (int r = 0; r < ranks; r++)
    if ((children[r] = fork()) == 0) {
      alarm(60);
      _exit(body(r, ranks));
    }
  for (int r = 0; r < ranks; r++) {
    int status = 0;
    waitpid(children[r], &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    if (code != expected[r]) fail_msg("rank %d ended with %d, not %d", r, code, expected[r]);
  }
}

static bd_meeting *join(int rank, int ranks) {
  char message[256] = "";
  bd_meeting *meeting = NULL;
  const bd_meeting_place place = place_of(rank, ranks);
  EXPECT(bd_meeting_join(&place, &meeting, message, sizeof message) == 0);
  EXPECT(meeting && !message[0]);
  return meeting;
}

static void exchange(bd_meeting *m, int rank, int ranks) {
  int64_t own[3] = {rank, 10 * rank, -rank}, all[3 * MOST_RANKS], mine[3];
  EXPECT(bd_meeting_gather(m, own, sizeof own, rank ? NULL : all) == 0);
  for (int r = 0; rank == 0 && r < ranks; r++)
    EXPECT(all[3 * r] == r && all[3 * r + 1] == 10 * r && all[3 * r + 2] == -r);
  EXPECT(bd_meeting_scatter(m, all, sizeof mine, mine) == 0);
  EXPECT(!memcmp(mine, own, sizeof mine));
  int64_t number = rank == 0 ? 42 : 0;
  EXPECT(bd_meeting_broadcast(m, &number, sizeof number) == 0 && number == 42);
  uint32_t words[4] = {0}, more[4];
  if (rank != 1) words[rank % 4] = 1u << rank;
  EXPECT(bd_meeting_merge(m, words, 4, rank ? NULL : more) == 0);
  if (rank == 0) EXPECT(words[0] == 1 && words[1] == 0 && words[2] == 4 && words[3] == 8);
  EXPECT(bd_meeting_watch(m) == 0);
}

static int large(bd_meeting *m, int rank, int ranks) {
  const size_t bytes = 3 << 20;
  unsigned char *const own = malloc(bytes), *const all = malloc(bytes * (size_t)ranks);
  memset(own, rank + 1, bytes);
  EXPECT(bd_meeting_gather(m, own, bytes, all) == 0);
  for (int r = 0; rank == 0 && r < ranks; r++)
    EXPECT(all[(size_t)r * bytes] == r + 1 && all[(size_t)(r + 1) * bytes - 1] == r + 1);
  free(own);
  free(all);
  return 0;
}

static int meet(int rank, int ranks) {
  // Not all at once, and rank 0 last.
  nanosleep(&(struct timespec){.tv_nsec = (ranks - rank) * 50000000L}, NULL);
  bd_meeting *const m = join(rank, ranks);
  for (int i = 0; i < 3; i++)
    exchange(m, rank, ranks);
  large(m, rank, ranks);
  exchange(m, rank, ranks);
  // Who leaves before rank 0 has heard all would seem dead, and so would rank 0 to who still looks.
  int done = 1, all[MOST_RANKS];
  EXPECT(bd_meeting_gather(m, &done, sizeof done, all) == 0);
  EXPECT(bd_meeting_broadcast(m, &done, sizeof done) == 0);
  bd_meeting_leave(m);
  return 0;
}

static void test_four_ranks(void **state) {
  (void)state;
  run_ranks(4, meet, (const int[]){0, 0, 0, 0});
}

static int meet_alone(int rank, int ranks) {
  bd_meeting *const m = join(rank, ranks);
  int number = 5, all = 0;
  EXPECT(bd_meeting_gather(m, &number, sizeof number, &all) == 0 && all == 5);
  EXPECT(bd_meeting_watch(m) == 0);
  bd_meeting_leave(m);
  return 0;
}

static void test_one_rank(void **state) {
  (void)state;
  run_ranks(1, meet_alone, (const int[]){0});
}

// Rank 1 belongs to another job.
static int meet_stranger(int rank, int ranks) {
  char message[256] = "";
  bd_meeting *meeting = NULL;
  bd_meeting_place place = place_of(rank, ranks);
  place.seconds = rank == 0 ? 3 : 1;
  if (rank == 1) place.cookie++;
  const int status = bd_meeting_join(&place, &meeting, message, sizeof message);
  EXPECT(!meeting);
  EXPECT(strstr(message, rank ? "another job listens there" : "1 of 2 ranks have joined"));
  return status;
}

static void test_wrong_cookie(void **state) {
  (void)state;
  run_ranks(2, meet_stranger, (const int[]){BD_RT_EXIT_DEAD_RANK, BD_RT_EXIT_DEAD_RANK});
}

// Rank 2 never comes: rank 0 says so, rank 1 is told without a word.
static int meet_incomplete(int rank, int ranks) {
  char message[256] = "";
  bd_meeting *meeting = NULL;
  bd_meeting_place place = place_of(rank, ranks);
  place.seconds = rank == 0 ? 2 : DEFAULT_SECONDS;
  if (rank == 2) return 0;
  const double start = bd_wire_now();
  const int status = bd_meeting_join(&place, &meeting, message, sizeof message);
  EXPECT(!meeting && bd_wire_now() - start < 10);
  if (rank == 0) EXPECT(strstr(message, "2 of 3 ranks") && strstr(message, "rank 2"));
  if (rank == 1) EXPECT(!message[0]);
  return status;
}

static void test_missing_rank(void **state) {
  (void)state;
  run_ranks(3, meet_incomplete, (const int[]){BD_RT_EXIT_DEAD_RANK, BD_RT_EXIT_DEAD_RANK, 0});
}

static int connect_raw(int rank) {
  int fd = -1, unknown = 0;
  for (int i = 0; i < 100 && fd < 0; i++) {
    fd = bd_wire_connect("127.0.0.1", port, &unknown);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  }
  EXPECT(fd >= 0);
  return fd;
}

// Sends bytes; `silent`: the connection stays open and nothing more comes.
static void send_raw(int rank, const void *data, size_t bytes, int silent) {
  const int fd = connect_raw(rank);
  EXPECT(bd_wire_send(fd, data, bytes, bd_wire_now() + 5));
  if (!silent) close(fd);
}

static int meet_among_strangers(int rank, int ranks) {
  if (rank == 1) {
    static const char page[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    const bd_frame huge = {BD_FRAME_MAGIC, BD_FRAME_HELLO, UINT32_MAX, 0};
    const bd_frame other = {BD_FRAME_MAGIC, BD_FRAME_DATA, sizeof(bd_hello), 0};
    struct {
      bd_frame frame;
      bd_hello hello;
    } forged = {{BD_FRAME_MAGIC, BD_FRAME_HELLO, sizeof(bd_hello), 0}, {0x1234, 0, ranks}};
    send_raw(rank, page, sizeof page, 0);
    send_raw(rank, page, sizeof page, 1);
    send_raw(rank, &huge, sizeof huge, 1);
    send_raw(rank, &other, sizeof other, 1);
    send_raw(rank, &huge, 5, 1); // half a head
    send_raw(rank, "", 0, 1);
    send_raw(rank, "", 0, 0);
    send_raw(rank, &forged, sizeof forged, 1); // a second rank 0
    forged.hello.rank = -1;
    send_raw(rank, &forged, sizeof forged, 1);
    forged.hello.rank = ranks;
    send_raw(rank, &forged, sizeof forged, 1);
    forged.hello.rank = 1;
    forged.hello.ranks = ranks + 1;
    send_raw(rank, &forged, sizeof forged, 1);
    for (int i = 0; i < 200; i++) // more than may wait
      send_raw(rank, &huge, 5, 1);
  }
  bd_meeting *const m = join(rank, ranks);
  int number = rank, all[2] = {-1, -1};
  EXPECT(bd_meeting_gather(m, &number, sizeof number, all) == 0);
  if (rank == 0) EXPECT(all[0] == 0 && all[1] == 1);
  EXPECT(bd_meeting_broadcast(m, &number, sizeof number) == 0);
  bd_meeting_leave(m);
  return 0;
}

static void test_hostile_visitors(void **state) {
  (void)state;
  run_ranks(2, meet_among_strangers, (const int[]){0, 0});
}

// What listens before rank 0 does tells rank 1 to end, with a status that none can have.
static int meet_after_impostor(int rank, int ranks) {
  if (rank == 0) {
    const bd_frame end = {BD_FRAME_MAGIC, BD_FRAME_END, 0, -7};
    const int door = bd_wire_listen(port, 1);
    int fd = -1;
    EXPECT(door >= 0);
    while ((fd = accept(door, NULL, NULL)) < 0)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    EXPECT(bd_wire_send(fd, &end, sizeof end, bd_wire_now() + 5));
    shutdown(fd, SHUT_WR);
    char rest[64];
    while (bd_wire_receive(fd, rest, 1, bd_wire_now() + 5))
      continue;
    close(fd);
    close(door);
  }
  bd_meeting *const m = join(rank, ranks);
  int done = 1;
  EXPECT(bd_meeting_broadcast(m, &done, sizeof done) == 0);
  bd_meeting_leave(m);
  return 0;
}

static void test_impostor(void **state) {
  (void)state;
  run_ranks(2, meet_after_impostor, (const int[]){0, 0});
}

// Rank 2 dies while the others wait for rank 1's part.
static int meet_mortal(int rank, int ranks) {
  bd_meeting *const m = join(rank, ranks);
  if (rank == 2) _exit(0);
  if (rank == 1) sleep(1);
  int number = rank, all[MOST_RANKS];
  int status = bd_meeting_gather(m, &number, sizeof number, all);
  if (!status) status = bd_meeting_broadcast(m, &number, sizeof number);
  EXPECT(status && bd_meeting_watch(m) == status);
  EXPECT(!strcmp(bd_meeting_reason(m), rank ? "" : "rank 2 ended early"));
  bd_meeting_end(m, status);
  return status;
}

static void test_dead_rank(void **state) {
  (void)state;
  const int dead = BD_RT_EXIT_DEAD_RANK;
  run_ranks(4, meet_mortal, (const int[]){dead, dead, 0, dead});
}

// All end with the status of the one that failed.
static int meet_failing(int rank, int ranks) {
  bd_meeting *const m = join(rank, ranks);
  if (rank == 1) {
    bd_meeting_end(m, BD_RT_EXIT_DATA);
    return BD_RT_EXIT_DATA;
  }
  int status = 0;
  while (!(status = bd_meeting_watch(m)))
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  EXPECT(!bd_meeting_reason(m)[0]);
  bd_meeting_end(m, status);
  return status;
}

static void test_failing_rank(void **state) {
  (void)state;
  const int data = BD_RT_EXIT_DATA;
  run_ranks(3, meet_failing, (const int[]){data, data, data});
}

static int lose_host(int rank, int ranks) {
  bd_meeting *const m = join(rank, ranks);
  if (rank == 0) _exit(0);
  int number;
  const int status = bd_meeting_broadcast(m, &number, sizeof number);
  EXPECT(!strcmp(bd_meeting_reason(m), "rank 0 ended early"));
  return status;
}

static void test_dead_host(void **state) {
  (void)state;
  run_ranks(2, lose_host, (const int[]){0, BD_RT_EXIT_DEAD_RANK});
}

static _Atomic int *speakers; // of all ranks' processes

// All but rank 0 fail at once: one of them may say why.
static int meet_failing_together(int rank, int ranks) {
  bd_meeting *const m = join(rank, ranks);
  int status = 0;
  if (rank) {
    status = bd_meeting_claim(m, BD_RT_EXIT_DATA);
    EXPECT(!bd_meeting_reason(m)[0]);
    if (!status) ++*speakers;
  } else {
    while (!(status = bd_meeting_watch(m)))
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  bd_meeting_end(m, status ? status : BD_RT_EXIT_DATA);
  return status ? status : BD_RT_EXIT_DATA;
}

static void test_failing_together(void **state) {
  (void)state;
  const int data = BD_RT_EXIT_DATA;
  speakers =
      mmap(NULL, sizeof *speakers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(speakers != MAP_FAILED);
  run_ranks(5, meet_failing_together, (const int[]){data, data, data, data, data});
  assert_int_equal(*speakers, 1);
  munmap((void *)speakers, sizeof *speakers);
}

// What rank 1 fails of is that rank 2 ended without a word, of which rank 0 hears at the same time.
static int meet_consequence(int rank, int ranks) {
  bd_meeting *const m = join(rank, ranks);
  if (rank == 2) _exit(0);
  if (rank == 0) sleep(1);
  const int status = bd_meeting_claim(m, BD_RT_EXIT_DATA);
  EXPECT(!strcmp(bd_meeting_reason(m), rank ? "" : "rank 2 ended early"));
  bd_meeting_end(m, status);
  return status;
}

static void test_consequence(void **state) {
  (void)state;
  const int dead = BD_RT_EXIT_DEAD_RANK;
  run_ranks(3, meet_consequence, (const int[]){dead, dead, 0});
}

// So is that rank 0 has ended.
static int meet_without_host(int rank, int ranks) {
  bd_meeting *const m = join(rank, ranks);
  if (rank == 0) _exit(0);
  const int status = bd_meeting_claim(m, BD_RT_EXIT_DATA);
  EXPECT(!strcmp(bd_meeting_reason(m), "rank 0 ended early"));
  return status;
}

static void test_dead_host_of_failing_rank(void **state) {
  (void)state;
  run_ranks(2, meet_without_host, (const int[]){0, BD_RT_EXIT_DEAD_RANK});
}

// Once it has joined, a rank may still send anything.
static int meet_liar(int rank, int ranks) {
  if (rank == 0) {
    bd_meeting *const m = join(rank, ranks);
    int number = 0, all[2];
    const int status = bd_meeting_gather(m, &number, sizeof number, all);
    EXPECT(!strcmp(bd_meeting_reason(m), "rank 1 sent what was not expected"));
    return status;
  }
  const struct {
    bd_frame frame;
    bd_hello hello;
  } hello = {{BD_FRAME_MAGIC, BD_FRAME_HELLO, sizeof(bd_hello), 0}, {0x1234, rank, ranks}};
  const bd_frame lie = {BD_FRAME_MAGIC, BD_FRAME_DATA, UINT32_MAX, 0};
  const int fd = connect_raw(rank);
  EXPECT(bd_wire_send(fd, &hello, sizeof hello, bd_wire_now() + 5));
  EXPECT(bd_wire_send(fd, &lie, sizeof lie, bd_wire_now() + 5));
  sleep(2);
  return 0;
}

static void test_lying_rank(void **state) {
  (void)state;
  run_ranks(2, meet_liar, (const int[]){BD_RT_EXIT_INTERNAL, 0});
}

static int option_of(int fd, int level, int name) {
  int value = -1;
  socklen_t bytes = sizeof value;
  return getsockopt(fd, level, name, &value, &bytes) ? -1 : value;
}

// Both ends of a connection notice a node that vanishes, whether they wait or have sent something.
static int meet_watchful(int rank, int ranks) {
  bd_meeting *const m = join(rank, ranks);
  const int fd = m->seats[rank ? 0 : 1];
  const int silence =
      option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE) +
      option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL) * option_of(fd, IPPROTO_TCP, TCP_KEEPCNT);
  EXPECT(option_of(fd, SOL_SOCKET, SO_KEEPALIVE) == 1);
  EXPECT(silence == 20);
  EXPECT(option_of(fd, IPPROTO_TCP, TCP_USER_TIMEOUT) == 20000);
  int done = 1, all[MOST_RANKS];
  EXPECT(bd_meeting_gather(m, &done, sizeof done, all) == 0);
  EXPECT(bd_meeting_broadcast(m, &done, sizeof done) == 0);
  bd_meeting_leave(m);
  return 0;
}

static void test_watchful(void **state) {
  (void)state;
  run_ranks(2, meet_watchful, (const int[]){0, 0});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_four_ranks, set_port),
      cmocka_unit_test_setup(test_one_rank, set_port),
      cmocka_unit_test_setup(test_wrong_cookie, set_port),
      cmocka_unit_test_setup(test_missing_rank, set_port),
      cmocka_unit_test_setup(test_hostile_visitors, set_port),
      cmocka_unit_test_setup(test_impostor, set_port),
      cmocka_unit_test_setup(test_dead_rank, set_port),
      cmocka_unit_test_setup(test_failing_rank, set_port),
      cmocka_unit_test_setup(test_dead_host, set_port),
      cmocka_unit_test_setup(test_failing_together, set_port),
      cmocka_unit_test_setup(test_consequence, set_port),
      cmocka_unit_test_setup(test_dead_host_of_failing_rank, set_port),
      cmocka_unit_test_setup(test_lying_rank, set_port),
      cmocka_unit_test_setup(test_watchful, set_port)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
