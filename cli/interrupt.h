// Ctrl-C as a wish: while it is watched for, the first interrupt sets a flag that searches look at,
// a second one ends braid.
#ifndef BD_CLI_INTERRUPT_H
#define BD_CLI_INTERRUPT_H
#include <signal.h>
#include <stdbool.h>

// The flag: set once and never cleared, since a process searches for itself.
const volatile sig_atomic_t *bd_interrupt_flag(void);

typedef struct bd_interrupt_watch {
  bool watches;
  struct sigaction before;
} bd_interrupt_watch;

// Watches for interrupts until bd_interrupt_end, which puts back what was there before. Where they
// are ignored, as in the background of a shell, they stay so. Never fails.
bd_interrupt_watch bd_interrupt_begin(void);
void bd_interrupt_end(const bd_interrupt_watch *watch);
#endif
