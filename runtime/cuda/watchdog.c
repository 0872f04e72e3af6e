#include "runtime/cuda/watchdog.h"

#include "runtime/cuda/rt.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct bd_watchdog {
  const bd_rt *rt;
  int stop; // an event
  pthread_t thread;
};

static void *watch(void *args) {
  const bd_watchdog *const w = args;
  struct pollfd stop = {.fd = w->stop, .events = POLLIN};
  int ready;
  if (!bd_meeting_await_end(w->rt->device->meeting, w->stop)) return NULL;
  do
    ready = poll(&stop, 1, 1000 * BD_WATCHDOG_SECONDS);
  while (ready < 0 && errno == EINTR);
  if (ready == 0) bd_cuda_leave_early(w->rt);
  return NULL;
}

bd_watchdog *bd_watchdog_start(const bd_rt *rt) {
  bd_watchdog *const w = bd_rt_allocate(1, sizeof *w);
  *w = (bd_watchdog){.rt = rt, .stop = eventfd(0, EFD_CLOEXEC)};
  if (w->stop < 0 || pthread_create(&w->thread, NULL, watch, w))
    bd_rt_fail(BD_RT_EXIT_EXTERNAL, "rank %d cannot start a thread that watches the others",
               rt->rank);
  return w;
}

void bd_watchdog_stop(bd_watchdog *w) {
  if (!w) return;
  eventfd_write(w->stop, 1);
  pthread_join(w->thread, NULL);
  close(w->stop);
  free(w);
}
