#include "runtime/stop.h"

#include "runtime/backend.h"

#include <signal.h>

static volatile sig_atomic_t asked;

static void on_signal(int signal) {
  (void)signal;
  asked = 1;
}

void bd_rt_stop_watch(void) {
  const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGUSR1, &action, NULL);
}

int bd_rt_stop_asked(bd_rt *rt) {
  double ranks = asked;
  bd_rt_sum_ranks(rt, &ranks, 1);
  return ranks > 0;
}
