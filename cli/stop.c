#include "cli/stop.h"
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static const int stops[] = {SIGINT, SIGTERM, SIGHUP};
enum { STOP_COUNT = sizeof stops / sizeof *stops };

// Of the process, as signals are.
static volatile sig_atomic_t wishes, wished, on_terminal;

const char *bd_stop_word(int signal) {
  return signal == SIGINT ? "an interrupt" : signal == SIGTERM ? "SIGTERM" : "SIGHUP";
}

static void say(const char *words) {
  if (write(STDERR_FILENO, words, strlen(words)) < 0) return; // nobody is there to be told
}

static void on_stop(int signal) {
  if (signal == SIGINT && wishes && !wished) {
    wished = 1;
    return;
  }
  if (on_terminal) say("\r\033[K"); // a search may have left its line there
  say("error: stopped by ");
  say(bd_stop_word(signal));
  say("\n");
  _exit(BD_EXIT_STOPPED + signal);
}

static bool is_ignored(int signal) {
  struct sigaction now;
  return sigaction(signal, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void bd_stop_watch(void) {
  struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
  on_terminal = isatty(STDERR_FILENO);
  sigemptyset(&action.sa_mask);
  bd_stop_add(&action.sa_mask);
  for (int i = 0; i < STOP_COUNT; i++)
    if (!is_ignored(stops[i])) sigaction(stops[i], &action, NULL);
}

void bd_stop_unwatch(void) {
  for (int i = 0; i < STOP_COUNT; i++)
    if (!is_ignored(stops[i])) signal(stops[i], SIG_DFL);
}

void bd_stop_wish_begin(void) {
  wishes = 1;
}

void bd_stop_wish_end(void) {
  wishes = 0;
}

const volatile sig_atomic_t *bd_stop_wish(void) {
  return &wished;
}

void bd_stop_add(sigset_t *set) {
  for (int i = 0; i < STOP_COUNT; i++)
    if (!is_ignored(stops[i])) sigaddset(set, stops[i]);
}

void bd_stop_remove(sigset_t *set) {
  for (int i = 0; i < STOP_COUNT; i++)
    sigdelset(set, stops[i]);
}

void bd_stop_hold(sigset_t *out_mask) {
  sigset_t set;
  sigemptyset(&set);
  bd_stop_add(&set);
  sigprocmask(SIG_BLOCK, &set, out_mask);
}

void bd_stop_release(const sigset_t *mask) {
  sigprocmask(SIG_SETMASK, mask, NULL);
}

int bd_stop_came(void) {
  sigset_t waiting;
  sigpending(&waiting);
  for (int i = 0; i < STOP_COUNT; i++)
    if (sigismember(&waiting, stops[i]) == 1) return stops[i];
  return 0;
}

void bd_stop_return(int signal, const sigset_t *mask) {
  if (signal)
    kill(getpid(), signal);
  else
    bd_stop_release(mask);
}
