#include "tests/record/summary.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 64, ORDER = 4096 };

typedef struct row {
  record_kind kind;
  int among; // of collectives: the axes; of messages: how many stages further the other end is
  int64_t count, bytes;
} row;

// Ranks of a stage that do equally much in the same order.
typedef struct class {
  int stage, row_count, first_rank, last_rank, ranks;
  int64_t arena_bytes;
  row rows[MOST_ROWS];
  char order[ORDER];
} class;

struct record_summary {
  record_world world;
  int devices, class_count;
  class *classes;    // the last one is of the rank that is being told
  uint64_t *digests; // of stages
  int rank;
};

static void *zeroed(size_t count, size_t size) {
  void *const memory = calloc(count, size);
  if (memory) return memory;
  fprintf(stderr, "out of memory\n");
  exit(1);
}

record_summary *record_summary_create(const record_world *world) {
  record_summary *const s = zeroed(1, sizeof *s);
  s->world = *world;
  s->devices = record_world_devices(world);
  s->classes = zeroed((size_t)record_world_ranks(world) + 1, sizeof *s->classes);
  s->digests = zeroed((size_t)world->stages, sizeof *s->digests);
  for (int i = 0; i < world->stages; i++)
    s->digests[i] = RECORD_DIGEST_START;
  s->rank = -1;
  return s;
}

void record_summary_destroy(record_summary *s) {
  free(s->classes);
  free(s->digests);
  free(s);
}

static class *current(record_summary *s) {
  return &s->classes[s->class_count];
}

static bool same_work(const class *a, const class *b) {
  if (a->row_count != b->row_count) return false;
  for (int i = 0; i < a->row_count; i++) {
    const row *const x = &a->rows[i], *const y = &b->rows[i];
    if (x->kind != y->kind || x->among != y->among || x->count != y->count || x->bytes != y->bytes)
      return false;
  }
  return true;
}

static bool same_class(const class *a, const class *b) {
  return a->stage == b->stage && a->arena_bytes == b->arena_bytes &&
         strcmp(a->order, b->order) == 0 && same_work(a, b);
}

static int by_kind(const void *a, const void *b) {
  const row *const x = a, *const y = b;
  return x->kind != y->kind ? (int)x->kind - (int)y->kind : x->among - y->among;
}

// The rank that was being told joins its class.
static void end_rank(record_summary *s) {
  class *const own = current(s);
  qsort(own->rows, (size_t)own->row_count, sizeof *own->rows, by_kind);
  for (int i = 0; i < s->class_count; i++) {
    if (!same_class(&s->classes[i], own)) continue;
    s->classes[i].last_rank = s->rank;
    s->classes[i].ranks++;
    return;
  }
  s->class_count++;
}

void record_summary_begin(record_summary *s, int rank, int64_t arena_bytes) {
  if (s->rank >= 0) end_rank(s);
  *current(s) = (class){.stage = rank / s->devices,
                        .arena_bytes = arena_bytes,
                        .first_rank = rank,
                        .last_rank = rank,
                        .ranks = 1};
  s->rank = rank;
}

void record_summary_take(record_summary *s, const record_event *event) {
  class *const own = current(s);
  const bool message = record_is_message(event->kind);
  const int among = message ? event->stage - own->stage : event->mask;
  int i = 0;
  while (i < own->row_count && (own->rows[i].kind != event->kind || own->rows[i].among != among))
    i++;
  if (i == MOST_ROWS) {
    fprintf(stderr, "more than %d kinds of events\n", MOST_ROWS);
    exit(1);
  }
  if (i == own->row_count) own->rows[own->row_count++] = (row){event->kind, among, 0, 0};
  own->rows[i].count++;
  for (int k = 0; k < event->operand_count; k++)
    if (event->operands[k].access != RECORD_SCRATCH) own->rows[i].bytes += event->operands[k].bytes;
  s->digests[own->stage] = record_digest(s->digests[own->stage], event);
}

void record_summary_phase(record_summary *s, const char *name) {
  class *const own = current(s);
  const size_t used = strlen(own->order);
  snprintf(own->order + used, sizeof own->order - used, " %s", name);
}

static void print_axes(const record_summary *s, int mask, FILE *stream) {
  const char *between = " over axis ";
  for (int a = 0; a < s->world.axes; a++)
    if (mask >> a & 1) {
      fprintf(stream, "%s%d", between, a);
      between = "+";
    }
}

static void print_row(const record_summary *s, const row *r, FILE *stream) {
  fprintf(stream, "  %lld %s", (long long)r->count, record_kind_name(r->kind));
  if (record_is_message(r->kind))
    fprintf(stream, " %s stage %+d", r->kind == RECORD_SEND ? "to" : "from", r->among);
  else
    print_axes(s, r->among, stream);
  if (r->bytes) fprintf(stream, ", %lld bytes", (long long)r->bytes);
  fprintf(stream, "\n");
}

// The first class that does the same work: it gives the work its number.
static int work_of(const record_summary *s, int index) {
  int first = 0;
  while (!same_work(&s->classes[first], &s->classes[index]))
    first++;
  return first;
}

static void print_stage(const record_summary *s, int stage, FILE *stream) {
  const char *order = "";
  for (int i = 0; i < s->class_count; i++) {
    const class *const c = &s->classes[i];
    if (c->stage != stage) continue;
    if (!*order)
      fprintf(stream, "stage %d: %d ranks, %lld bytes, digest %016llx\n", stage, s->devices,
              (long long)c->arena_bytes, (unsigned long long)s->digests[stage]);
    if (strcmp(order, c->order) != 0) fprintf(stream, " %s\n", c->order);
    order = c->order;
    fprintf(stream, "  ranks %d..%d, %d alike: work %d\n", c->first_rank, c->last_rank, c->ranks,
            work_of(s, i));
  }
}

void record_summary_print(const record_summary *summary, FILE *stream) {
  record_summary whole = *summary;
  if (whole.rank >= 0) end_rank(&whole);
  for (int stage = 0; stage < whole.world.stages; stage++)
    print_stage(&whole, stage, stream);
  for (int i = 0; i < whole.class_count; i++) {
    if (work_of(&whole, i) != i) continue;
    fprintf(stream, "work %d:\n", i);
    for (int k = 0; k < whole.classes[i].row_count; k++)
      print_row(&whole, &whole.classes[i].rows[k], stream);
  }
}
