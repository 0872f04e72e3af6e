#include "ir/base/context.h"

#include "ir/base/intern.h"
#include "ir/base/text.h"
#include <assert.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

// What bd_ctx_create makes: the last diagnostic of a context is set aside, so that running out of
// memory can be told without memory.
typedef struct holder {
  bd_ctx ctx; // first, so that a bd_ctx is a holder
  bool owns_names;
  bool told_exhausted;
  bd_diag exhausted;
  char exhausted_message[64];
} holder;

typedef struct guard {
  jmp_buf target;
  size_t wanted_bytes;
  bd_owned *owned; // what was held before it
} guard;

_Noreturn void bd_ctx_exhausted(bd_ctx *ctx, size_t wanted_bytes) {
  guard *innermost = ctx->guard;
  if (!innermost) {
    fprintf(stderr, "braid: out of memory outside bd_ctx_run: %zu bytes wanted\n", wanted_bytes);
    abort();
  }
  innermost->wanted_bytes = wanted_bytes;
  while (ctx->owned != innermost->owned) {
    bd_owned *each = ctx->owned;
    ctx->owned = each->outer;
    each->release(each->object);
  }
  longjmp(innermost->target, 1);
}

static void arena_exhausted(void *user, size_t wanted_bytes) {
  bd_ctx_exhausted(user, wanted_bytes);
}

static bd_ctx *create(bd_intern_table *shared_names) {
  holder *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  bd_ctx *ctx = &made->ctx;
  made->owns_names = !shared_names;
  ctx->names = shared_names ? shared_names : bd_intern_create();
  ctx->session = bd_arena_create(arena_exhausted, ctx);
  ctx->arena = ctx->session;
  if (ctx->names && ctx->session) return ctx;
  bd_ctx_destroy(ctx);
  return NULL;
}

bd_ctx *bd_ctx_create(void) {
  return create(NULL);
}

bd_ctx *bd_ctx_create_child(bd_ctx *parent) {
  return create(parent->names);
}

void bd_ctx_destroy(bd_ctx *ctx) {
  if (!ctx) return;
  holder *made = (holder *)ctx;
  bd_arena_destroy(ctx->session);
  if (made->owns_names) bd_intern_destroy(ctx->names);
  free(made);
}

bd_arena *bd_ctx_create_arena(bd_ctx *ctx) {
  bd_arena *arena = bd_arena_create(arena_exhausted, ctx);
  if (!arena) bd_ctx_exhausted(ctx, sizeof(void *));
  return arena;
}

static void append(bd_ctx *ctx, bd_diag *diag) {
  if (ctx->last_diag)
    ctx->last_diag->next = diag;
  else
    ctx->first_diag = diag;
  ctx->last_diag = diag;
  if (diag->severity == BD_ERROR) ctx->error_count++;
}

// A context tells of running out of memory once: more would say the same.
static void tell_exhausted(bd_ctx *ctx, size_t wanted_bytes) {
  holder *made = (holder *)ctx;
  if (made->told_exhausted) return;
  made->told_exhausted = true;
  snprintf(made->exhausted_message, sizeof made->exhausted_message,
           "out of memory: %zu bytes wanted", wanted_bytes);
  made->exhausted = (bd_diag){.severity = BD_ERROR, .message = made->exhausted_message};
  append(ctx, &made->exhausted);
}

bd_status bd_ctx_run(bd_ctx *ctx, bd_status (*body)(bd_ctx *ctx, void *arg), void *arg) {
  guard here;
  void *const outer_guard = ctx->guard;
  bd_arena *const outer_arena = ctx->arena;
  here.owned = ctx->owned;
  if (setjmp(here.target) == 0) {
    ctx->guard = &here;
    bd_status status = body(ctx, arg);
    ctx->guard = outer_guard;
    return status;
  }
  ctx->guard = outer_guard;
  ctx->arena = outer_arena;
  tell_exhausted(ctx, here.wanted_bytes);
  return BD_EXHAUSTED;
}

void bd_own(bd_ctx *ctx, bd_owned *slot, void (*release)(void *object), void *object) {
  *slot = (bd_owned){.release = release, .object = object, .outer = ctx->owned};
  ctx->owned = slot;
}

void bd_disown(bd_ctx *ctx, const bd_owned *slot) {
  assert(ctx->owned == slot);
  ctx->owned = slot->outer;
}

static void destroy_arena(void *arena) {
  bd_arena_destroy(arena);
}

bd_arena *bd_ctx_open_arena(bd_ctx *ctx, bd_owned *slot) {
  bd_arena *arena = bd_ctx_create_arena(ctx);
  bd_own(ctx, slot, destroy_arena, arena);
  return arena;
}

void bd_ctx_close_arena(bd_ctx *ctx, const bd_owned *slot) {
  bd_disown(ctx, slot);
  bd_arena_destroy(slot->object);
}

// The file's name in the session, printable, so that it outlives the stage that named it.
static const char *keep_file(bd_ctx *ctx, const char *file) {
  if (!file) return NULL;
  bd_text text = bd_text_init(ctx->session);
  bd_text_add_printable(&text, file, strlen(file));
  return bd_intern(ctx, text.data, text.length);
}

static void record(bd_ctx *ctx, bd_severity severity, bd_loc loc, const char *format,
                   va_list arguments) {
  bd_text raw = bd_text_init(ctx->session);
  bd_text_addv(&raw, format, arguments);
  bd_text message = bd_text_init(ctx->session);
  bd_text_add_printable(&message, raw.data, raw.length);
  bd_diag *diag = BD_NEW(ctx->session, bd_diag);
  loc.file = keep_file(ctx, loc.file);
  *diag = (bd_diag){.severity = severity, .loc = loc, .message = message.data};
  append(ctx, diag);
}

bd_status bd_fail(bd_ctx *ctx, bd_status status, bd_loc loc, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  record(ctx, BD_ERROR, loc, format, arguments);
  va_end(arguments);
  return status;
}

void bd_warn(bd_ctx *ctx, bd_loc loc, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  record(ctx, BD_WARNING, loc, format, arguments);
  va_end(arguments);
}

void bd_note(bd_ctx *ctx, bd_loc loc, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  record(ctx, BD_NOTE, loc, format, arguments);
  va_end(arguments);
}

void bd_ctx_merge(bd_ctx *parent, bd_ctx *child) {
  for (const bd_diag *each = child->first_diag; each; each = each->next) {
    bd_diag *copy = BD_NEW(parent->session, bd_diag);
    bd_text message = bd_text_init(parent->session);
    bd_text_add(&message, each->message);
    *copy = (bd_diag){.severity = each->severity, .loc = each->loc, .message = message.data};
    append(parent, copy);
  }
}

static void print_place(FILE *stream, bd_loc loc) {
  if (!loc.file) return;
  fprintf(stream, "%s:", loc.file);
  if (loc.line > 0) fprintf(stream, "%d:", loc.line);
  if (loc.line > 0 && loc.column > 0) fprintf(stream, "%d:", loc.column);
  fputc(' ', stream);
}

void bd_diags_print(const bd_ctx *ctx, FILE *stream, bool color) {
  static const char *const words[] = {"error", "warning", "note"};
  static const char *const colors[] = {"\033[1;31m", "\033[1;35m", "\033[1;36m"};
  for (const bd_diag *each = ctx->first_diag; each; each = each->next) {
    print_place(stream, each->loc);
    fprintf(stream, "%s%s:%s %s\n", color ? colors[each->severity] : "", words[each->severity],
            color ? "\033[0m" : "", each->message);
  }
}
