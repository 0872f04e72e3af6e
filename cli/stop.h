// Being told to stop: by SIGINT (Ctrl-C), SIGTERM or SIGHUP, where braid does not ignore them.
#ifndef BD_CLI_STOP_H
#define BD_CLI_STOP_H
#include <signal.h>
#include <stdbool.h>

// Exit status of a command that was told to stop: this and the signal's number.
enum { BD_EXIT_STOPPED = 128 };

// From here on a stop says so in one line and ends braid at once, but for what follows. Never
// fails.
void bd_stop_watch(void);
// In a child, before it becomes another program: stops are as if braid had never watched.
void bd_stop_unwatch(void);

// Between these two the first interrupt is a wish: it sets a flag that searches look at. One more
// is a stop. The flag is never cleared, since a process searches for itself.
void bd_stop_wish_begin(void);
void bd_stop_wish_end(void);
const volatile sig_atomic_t *bd_stop_wish(void);

// Stops wait from here to the release, which answers them: around what must not be left half done.
// They nest. Whoever has nothing left to do but that gives NULL and never releases: a command that
// fails with a stop waiting ends with the status of a stop.
void bd_stop_hold(sigset_t *out_mask);
void bd_stop_release(const sigset_t *mask);
// The signal that waits, or 0.
int bd_stop_came(void);
// After signals have been held and taken: lets `signal` wait again, held from here on, or where it
// is 0 puts back the mask that was before.
void bd_stop_return(int signal, const sigset_t *mask);

// "an interrupt", "SIGTERM": by what braid was stopped. Static storage.
const char *bd_stop_word(int signal);

// Adds the signals to a set, or takes them out.
void bd_stop_add(sigset_t *set);
void bd_stop_remove(sigset_t *set);
#endif
