#include "tests/record/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MASKS = 1 << RECORD_MOST_AXES,
  MOST_HANDLES = 4096,
  TERMS_SLOTS = 1 << 16, // of the hash table
  MOST_BLOCKED = 12,     // that a fault names
  TEXT = 256,
};

// One thing that a rank says. Of a message and a wait: `peer` is the other stage, `count` how many
// messages this end has had with it, this one included. Of a collective: `peer` is the mask.
typedef struct word {
  record_kind kind;
  int terms, peer, count;
  bool posts; // a message that is sent, with those before it that have not left
} word;

typedef struct speaker {
  int count, capacity;
  word *words;
  // While they run:
  int at;
  bool written; // the message `at`, which has not left
  bool arrived; // at the collective `at`
  int round;    // of its group
} speaker;

typedef struct group { // of ranks, by its lowest rank and mask
  int round, arrived, terms, first;
} group;

typedef struct pipe { // from a rank to a stage
  int written, sent, taken, capacity;
  int *terms;
  int *ends;  // of each line: how many messages there were when its last had left
  int before; // what is to be taken before all that has been sent has begun
} pipe;

struct record_talk {
  record_world world;
  bool in_order; // work begins in the order in which it is asked for
  int ranks, devices;
  speaker *speakers;
  group *groups;
  pipe *pipes;
  int terms_count, terms_capacity;
  record_terms *terms;
  int *slots; // 1 + index of terms, by digest
  // Of the rank that is being told:
  int rank, last_sent;  // the word, or -1
  int *sent, *received; // by stage
  int handle_peer[MOST_HANDLES], handle_count[MOST_HANDLES];
};

int record_world_devices(const record_world *world) {
  int devices = 1;
  for (int a = 0; a < world->axes; a++)
    devices *= world->mesh[a];
  return devices;
}

int record_world_ranks(const record_world *world) {
  return world->stages * record_world_devices(world);
}

static void *allocate(void *memory, size_t count, size_t size) {
  memory = realloc(memory, count * size);
  if (memory) return memory;
  fprintf(stderr, "out of memory\n");
  exit(1);
}

static void *zeroed(size_t count, size_t size) {
  return memset(allocate(NULL, count, size), 0, count * size);
}

record_talk *record_talk_create(const record_world *world, bool in_order) {
  record_talk *const t = zeroed(1, sizeof *t);
  t->world = *world;
  t->in_order = in_order;
  t->devices = record_world_devices(world);
  t->ranks = record_world_ranks(world);
  t->speakers = zeroed((size_t)t->ranks, sizeof *t->speakers);
  t->groups = zeroed((size_t)t->ranks * MASKS + 1, sizeof *t->groups);
  t->pipes = zeroed((size_t)t->ranks * (size_t)world->stages, sizeof *t->pipes);
  for (int p = 0; p < t->ranks * world->stages; p++)
    t->pipes[p].ends = zeroed((size_t)world->stages, sizeof *t->pipes[p].ends);
  t->slots = zeroed(TERMS_SLOTS, sizeof *t->slots);
  t->sent = zeroed((size_t)world->stages, sizeof *t->sent);
  t->received = zeroed((size_t)world->stages, sizeof *t->received);
  t->rank = -1;
  return t;
}

void record_talk_destroy(record_talk *t) {
  for (int r = 0; r < t->ranks; r++)
    free(t->speakers[r].words);
  for (int p = 0; p < t->ranks * t->world.stages; p++) {
    free(t->pipes[p].terms);
    free(t->pipes[p].ends);
  }
  free(t->speakers);
  free(t->groups);
  free(t->pipes);
  free(t->terms);
  free(t->slots);
  free(t->sent);
  free(t->received);
  free(t);
}

// The number of these terms; equal terms have one.
static int number_terms(record_talk *t, const record_terms *terms) {
  uint64_t slot = record_digest_terms(RECORD_DIGEST_START, terms);
  for (slot %= TERMS_SLOTS; t->slots[slot]; slot = (slot + 1) % TERMS_SLOTS)
    if (record_same_terms(&t->terms[t->slots[slot] - 1], terms)) return t->slots[slot] - 1;
  if (t->terms_count == t->terms_capacity) {
    t->terms_capacity = t->terms_capacity ? 2 * t->terms_capacity : 64;
    t->terms = allocate(t->terms, (size_t)t->terms_capacity, sizeof *t->terms);
  }
  if (t->terms_count == TERMS_SLOTS / 2) {
    fprintf(stderr, "more than %d kinds of collectives and messages\n", t->terms_count);
    exit(1);
  }
  t->terms[t->terms_count] = *terms;
  t->slots[slot] = ++t->terms_count;
  return t->terms_count - 1;
}

static void begin_rank(record_talk *t, int rank) {
  t->rank = rank;
  t->last_sent = -1;
  memset(t->sent, 0, (size_t)t->world.stages * sizeof *t->sent);
  memset(t->received, 0, (size_t)t->world.stages * sizeof *t->received);
  memset(t->handle_count, 0, sizeof t->handle_count);
}

static word word_of(record_talk *t, const record_event *event) {
  word w = {.kind = event->kind};
  if (event->kind == RECORD_WAIT) {
    w.peer = t->handle_peer[event->handle];
    w.count = t->handle_count[event->handle];
    return w;
  }
  w.terms = number_terms(t, &event->terms);
  w.peer = event->mask;
  if (!record_is_message(event->kind)) return w;
  w.peer = event->stage;
  w.count = event->kind == RECORD_SEND ? ++t->sent[w.peer] : ++t->received[w.peer];
  w.posts = event->kind == RECORD_SEND;
  if (event->handle == RECORD_NO_HANDLE) return w;
  t->handle_peer[event->handle] = w.peer;
  t->handle_count[event->handle] = w.count;
  return w;
}

void record_talk_take(record_talk *t, int rank, const record_event *event) {
  const bool message = record_is_message(event->kind) || event->kind == RECORD_WAIT;
  if (!message && !record_is_collective(event->kind)) return;
  if (rank != t->rank) begin_rank(t, rank);
  speaker *const s = &t->speakers[rank];
  if (s->count == s->capacity) {
    s->capacity = s->capacity ? 2 * s->capacity : 64;
    s->words = allocate(s->words, (size_t)s->capacity, sizeof *s->words);
  }
  if (event->kind == RECORD_SEND) {
    if (!event->alone && t->last_sent >= 0) s->words[t->last_sent].posts = false;
    t->last_sent = s->count;
  }
  s->words[s->count++] = word_of(t, event);
}

// The group of a rank along the axes of a mask: its lowest rank and how many they are.
static group *group_of(record_talk *t, int rank, int mask, int *out_size) {
  int lowest = rank, stride = 1, size = 1;
  for (int a = t->world.axes - 1; a >= 0; a--) {
    if (mask >> a & 1) {
      lowest -= rank / stride % t->world.mesh[a] * stride;
      size *= t->world.mesh[a];
    }
    stride *= t->world.mesh[a];
  }
  *out_size = size;
  return &t->groups[lowest * MASKS + mask];
}

static void describe_terms(const record_terms *x, char *out) {
  if (x->kind == RECORD_SEND)
    snprintf(out, TEXT, "message of tag %d, %lld bytes, in line %d", x->tag, (long long)x->shape[0],
             x->line);
  else
    snprintf(out, TEXT, "%s of type %d, combiner %d, [%lld,%lld,%lld,%lld,%lld]",
             record_kind_name(x->kind), x->dtype, x->combiner, (long long)x->shape[0],
             (long long)x->shape[1], (long long)x->shape[2], (long long)x->shape[3],
             (long long)x->shape[4]);
}

static void say_differs(const record_talk *t, record_faults *faults, int a, int terms_a, int b,
                        int terms_b) {
  char first[TEXT], second[TEXT];
  describe_terms(&t->terms[terms_a], first);
  describe_terms(&t->terms[terms_b], second);
  record_fault(faults, "ranks %d and %d do not match: %s, and %s", a, b, first, second);
}

typedef enum progress { WAITS, GOES_ON, DIFFERS } progress;

static progress meet(record_talk *t, record_faults *faults, int rank, const word *w) {
  speaker *const s = &t->speakers[rank];
  int size;
  // Host values are added up over all ranks: the last group.
  group *const g = w->kind == RECORD_SUM_RANKS ? &t->groups[t->ranks * MASKS]
                                               : group_of(t, rank, w->peer, &size);
  if (w->kind == RECORD_SUM_RANKS) size = t->ranks;
  if (s->arrived) {
    if (g->round == s->round) return WAITS;
    s->arrived = false;
    return GOES_ON;
  }
  if (g->arrived == 0) {
    g->terms = w->terms;
    g->first = rank;
  } else if (g->terms != w->terms) {
    say_differs(t, faults, g->first, g->terms, rank, w->terms);
    return DIFFERS;
  }
  if (++g->arrived == size) {
    g->arrived = 0;
    g->round++;
    return GOES_ON;
  }
  s->arrived = true;
  s->round = g->round;
  return WAITS;
}

static pipe *pipe_of(record_talk *t, int from, int to_stage) {
  return &t->pipes[from * t->world.stages + to_stage];
}

// What has been written leaves, in a line behind what left in it before.
static void post(const record_talk *t, pipe *p) {
  int *const end = &p->ends[t->terms[p->terms[p->sent]].line];
  if (*end > p->before) p->before = *end;
  *end = p->sent = p->written;
}

// The stage that a rank sends to behind a message that has not been received, or -1. What is asked
// later begins when that has begun.
static int stage_behind(const record_talk *t, int rank) {
  if (!t->in_order) return -1;
  for (int stage = 0; stage < t->world.stages; stage++) {
    const pipe *const p = &t->pipes[rank * t->world.stages + stage];
    if (p->taken < p->before) return stage;
  }
  return -1;
}

static progress send(record_talk *t, int rank, const word *w) {
  bool *const written = &t->speakers[rank].written;
  pipe *const p = pipe_of(t, rank, w->peer);
  if (p->written == p->capacity) {
    p->capacity = p->capacity ? 2 * p->capacity : 16;
    p->terms = allocate(p->terms, (size_t)p->capacity, sizeof *p->terms);
  }
  if (!*written) p->terms[p->written++] = w->terms;
  *written = true;
  for (int stage = 0; w->posts && stage < t->world.stages; stage++) {
    pipe *const other = pipe_of(t, rank, stage);
    if (other->written == other->sent) continue;
    if (stage_behind(t, rank) >= 0) return WAITS;
    post(t, other);
  }
  *written = false;
  return GOES_ON;
}

static int sender_of(const record_talk *t, int rank, int stage) {
  return stage * t->devices + rank % t->devices;
}

static progress receive(record_talk *t, record_faults *faults, int rank, const word *w) {
  const int sender = sender_of(t, rank, w->peer);
  pipe *const p = pipe_of(t, sender, rank / t->devices);
  if (p->taken == p->sent) return WAITS;
  if (p->terms[p->taken] != w->terms) {
    say_differs(t, faults, sender, p->terms[p->taken], rank, w->terms);
    return DIFFERS;
  }
  p->taken++;
  return GOES_ON;
}

static progress speak(record_talk *t, record_faults *faults, int rank) {
  const speaker *const s = &t->speakers[rank];
  const word *const w = &s->words[s->at];
  if (w->kind != RECORD_SEND && w->kind != RECORD_WAIT && stage_behind(t, rank) >= 0) return WAITS;
  switch (w->kind) {
  case RECORD_SEND:
    return send(t, rank, w);
  case RECORD_RECEIVE:
    return receive(t, faults, rank, w);
  case RECORD_WAIT:
    return pipe_of(t, rank, w->peer)->taken >= w->count ? GOES_ON : WAITS;
  default:
    return meet(t, faults, rank, w);
  }
}

static void say_blocked(const record_talk *t, record_faults *faults, int rank) {
  const speaker *const s = &t->speakers[rank];
  const word *const w = &s->words[s->at];
  char text[TEXT];
  const int behind = w->kind == RECORD_WAIT ? -1 : stage_behind(t, rank);
  if (behind >= 0)
    snprintf(text, sizeof text, "the beginning of a message to stage %d behind another", behind);
  else if (w->kind == RECORD_WAIT)
    snprintf(text, sizeof text, "the end of its message %d to stage %d", w->count, w->peer);
  else if (w->kind == RECORD_RECEIVE)
    snprintf(text, sizeof text, "message %d from rank %d", w->count, sender_of(t, rank, w->peer));
  else
    describe_terms(&t->terms[w->terms], text);
  record_fault(faults, "rank %d waits for ever, %d of %d, for %s", rank, s->at + 1, s->count, text);
}

static void say_ends(const record_talk *t, record_faults *faults) {
  int blocked = 0;
  for (int r = 0; r < t->ranks; r++)
    if (t->speakers[r].at < t->speakers[r].count && blocked++ < MOST_BLOCKED)
      say_blocked(t, faults, r);
  if (blocked > MOST_BLOCKED) record_fault(faults, "%d ranks wait for ever", blocked);
  for (int p = 0; blocked == 0 && p < t->ranks * t->world.stages; p++)
    if (t->pipes[p].taken < t->pipes[p].sent)
      record_fault(faults, "%d messages of rank %d to stage %d are never received",
                   t->pipes[p].sent - t->pipes[p].taken, p / t->world.stages, p % t->world.stages);
}

void record_talk_check(record_talk *t, record_faults *faults) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < t->ranks; r++) {
      speaker *const s = &t->speakers[r];
      while (s->at < s->count) {
        const progress p = speak(t, faults, r);
        if (p == DIFFERS) return;
        if (p == WAITS) break;
        s->at++;
        moved = true;
      }
    }
  }
  say_ends(t, faults);
}
