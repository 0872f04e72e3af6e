#include "cli/interrupt.h"
#include <stddef.h>

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal) {
  (void)signal;
  interrupted = 1;
}

const volatile sig_atomic_t *bd_interrupt_flag(void) {
  return &interrupted;
}

bd_interrupt_watch bd_interrupt_begin(void) {
  bd_interrupt_watch watch = {0};
  struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&action.sa_mask);
  watch.watches = sigaction(SIGINT, NULL, &watch.before) == 0 &&
                  watch.before.sa_handler != SIG_IGN && sigaction(SIGINT, &action, NULL) == 0;
  return watch;
}

void bd_interrupt_end(const bd_interrupt_watch *watch) {
  if (watch->watches) sigaction(SIGINT, &watch->before, NULL);
}
