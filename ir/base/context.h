// What every compiler function is handed: where to allocate and where to report.
#ifndef BD_IR_BASE_CONTEXT_H
#define BD_IR_BASE_CONTEXT_H
#include "ir/base/arena.h"
#include "ir/base/status.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// A place in an input file. `file` NULL: no place. Line and column count from 1; 0: unknown.
typedef struct bd_loc {
  const char *file;
  int line;
  int column;
} bd_loc;

typedef enum bd_severity { BD_ERROR, BD_WARNING, BD_NOTE } bd_severity;

typedef struct bd_diag {
  bd_severity severity;
  bd_loc loc;
  const char *message; // printable: control bytes are escaped when the diagnostic is made
  struct bd_diag *next;
} bd_diag;

// Something held outside the arenas, on the stack of the function that holds it.
typedef struct bd_owned {
  void (*release)(void *object);
  void *object;
  struct bd_owned *outer;
} bd_owned;

typedef struct bd_ctx {
  bd_arena *arena; // where results go; the driver may swap it between stages
  bd_arena *session;
  bd_diag *first_diag, *last_diag;
  int error_count;
  void *guard;     // owned by bd_ctx_run
  bd_owned *owned; // the innermost
  struct bd_intern *names;
} bd_ctx;

// Returns NULL when out of memory. The caller destroys it.
bd_ctx *bd_ctx_create(void);
void bd_ctx_destroy(bd_ctx *ctx);

// A context with its own arenas, for a worker thread; destroy it after bd_ctx_merge. It shares the
// parent's interned strings, so those outlive it. NULL when out of memory.
bd_ctx *bd_ctx_create_child(bd_ctx *parent);
// Appends the child's diagnostics to the parent's, in call order.
void bd_ctx_merge(bd_ctx *parent, bd_ctx *child);

// An arena whose exhaustion ends the innermost bd_ctx_run of `ctx`, as does a lack of memory for
// the arena itself. The caller destroys it, before `ctx`.
bd_arena *bd_ctx_create_arena(bd_ctx *ctx);

// Runs `body`; when an arena runs out inside it, releases what the body owns (bd_own), innermost
// first, and returns BD_EXHAUSTED with a diagnostic.
bd_status bd_ctx_run(bd_ctx *ctx, bd_status (*body)(bd_ctx *ctx, void *arg), void *arg);

// From here to bd_disown, `object` is released when an arena runs out. `slot` is the caller's. The
// two calls nest; `release` must not allocate in an arena.
void bd_own(bd_ctx *ctx, bd_owned *slot, void (*release)(void *object), void *object);
void bd_disown(bd_ctx *ctx, const bd_owned *slot);

// An arena as of bd_ctx_create_arena that is owned until bd_ctx_close_arena destroys it.
bd_arena *bd_ctx_open_arena(bd_ctx *ctx, bd_owned *slot);
void bd_ctx_close_arena(bd_ctx *ctx, const bd_owned *slot);

// Records an error at `loc` and returns `status`, so that `return bd_fail(...)` reads well.
bd_status bd_fail(bd_ctx *ctx, bd_status status, bd_loc loc, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void bd_warn(bd_ctx *ctx, bd_loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// A note belongs to the diagnostic before it.
void bd_note(bd_ctx *ctx, bd_loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Prints diagnostics as `file:line:column: error: message`, a line each. With `color`, ANSI.
void bd_diags_print(const bd_ctx *ctx, FILE *stream, bool color);

#define BD_NOWHERE ((bd_loc){0})
static inline bd_loc bd_loc_file(const char *file) {
  return (bd_loc){.file = file};
}

// The one copy of a string in this session; equal strings give equal pointers. `length` bytes.
const char *bd_intern(bd_ctx *ctx, const char *text, size_t length);
const char *bd_intern_z(bd_ctx *ctx, const char *text);
const char *bd_intern_f(bd_ctx *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
