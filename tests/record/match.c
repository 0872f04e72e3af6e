#include "tests/record/match.h"

enum { MOST_USES = 256, NAME = 256 };

typedef struct matching {
  record_holding *h;
  const record_instruction *in;
  const record_use *uses;
  int micro_batch;
  record_group *group;
  int64_t start[MOST_USES], end[MOST_USES]; // what the events touch of each use; start -1: nothing
} matching;

static int value_of(const matching *m, int use) {
  return record_value_of(m->h->e, m->uses[use].value, m->micro_batch);
}

// Whether events of this kind belong to the instruction, beside those of its own kind.
static bool is_helper(const matching *m, record_kind kind) {
  switch (m->in->kind) {
  case RECORD_MATMUL:
  case RECORD_EMBED_DW:
    return kind == RECORD_ZERO;
  case RECORD_GROUPED_ROWS:
  case RECORD_GROUPED_WEIGHTS:
    return kind == RECORD_FETCH;
  case RECORD_SEND:
    return kind == RECORD_COPY || kind == RECORD_WAIT;
  case RECORD_ALL_REDUCE:
  case RECORD_ALL_GATHER:
  case RECORD_REDUCE_SCATTER:
  case RECORD_ALL_TO_ALL:
  case RECORD_MIRROR:
    return kind == RECORD_COPY && m->h->rt->group[m->in->mask].size == 1;
  default:
    return false;
  }
}

static bool check_kinds(const matching *m) {
  int own = 0, helpers = 0;
  for (int i = 0; i < m->group->count; i++) {
    const record_kind kind = m->group->events[i].kind;
    if (kind == m->in->kind) {
      own++;
    } else if (is_helper(m, kind)) {
      helpers++;
    } else {
      record_fault(m->h->faults, "%s: a %s where %s is expected", record_where(m->h),
                   record_kind_name(kind), record_kind_name(m->in->kind));
      return false;
    }
  }
  const bool alone = record_is_collective(m->in->kind) && m->h->rt->group[m->in->mask].size == 1;
  const bool many = m->in->kind == RECORD_MATMUL || m->in->kind == RECORD_EMBED_DW;
  if (own == m->in->parts || (own > 0 && many) || (alone && own == 0 && helpers == 1)) return true;
  record_fault(m->h->faults, "%s: %d times %s, expected %d", record_where(m->h), own,
               record_kind_name(m->in->kind), m->in->parts);
  return false;
}

static void stretch(matching *m, int use, const record_operand *o) {
  if (m->start[use] < 0 || o->start < m->start[use]) m->start[use] = o->start;
  if (o->start + o->bytes > m->end[use]) m->end[use] = o->start + o->bytes;
}

// Launches tell addresses; the operands come in the order of the uses.
static bool fill_launch(matching *m, record_event *event) {
  if (event->operand_count != m->in->use_count) {
    record_fault(m->h->faults, "%s: %d buffers, expected %d", record_where(m->h),
                 event->operand_count, m->in->use_count);
    return false;
  }
  for (int i = 0; i < event->operand_count; i++) {
    event->operands[i].access = m->uses[i].access;
    event->operands[i].bytes = m->uses[i].bytes;
    stretch(m, i, &event->operands[i]);
  }
  return true;
}

static bool is_runtimes(const matching *m, const record_operand *o) {
  const record_buffer *const b = record_holding_find(m->h, o->start, o->bytes);
  return b && b->weight < 0;
}

// Which use an operand is part of, or -1: a read lies within a value that is read, a write within
// one that is written, or is the first of one, which it places. What an event writes anew comes in
// the order of the uses, from `first` on.
static int use_of(const matching *m, const record_operand *o, int first) {
  const bool reads = o->access == RECORD_READ;
  for (int i = o->access == RECORD_WRITE ? first : 0; i < m->in->use_count; i++) {
    const int64_t address = m->h->address[value_of(m, i)], at = address + m->uses[i].offset;
    if (reads == (m->uses[i].access == RECORD_READ) && address >= 0 && at <= o->start &&
        o->start + o->bytes <= at + m->uses[i].bytes)
      return i;
  }
  for (int i = first; !reads && i < m->in->use_count; i++)
    if (m->uses[i].access == RECORD_WRITE && m->h->address[value_of(m, i)] < 0) return i;
  return -1;
}

static bool place_operand(matching *m, const record_event *event, const record_operand *o,
                          int *first) {
  if (o->access == RECORD_SCRATCH || o->bytes == 0 || is_runtimes(m, o)) return true;
  const int use = use_of(m, o, *first);
  if (use < 0) {
    record_fault(m->h->faults, "%s: %s %s %lld+%lld, which is no value of the instruction",
                 record_where(m->h), record_kind_name(event->kind),
                 o->access == RECORD_READ ? "reads" : "writes", (long long)o->start,
                 (long long)o->bytes);
    return false;
  }
  const bool fresh = m->uses[use].access == RECORD_WRITE && m->start[use] < 0;
  if ((fresh && o->access != RECORD_WRITE) ||
      (m->uses[use].access == RECORD_UPDATE && o->access != RECORD_UPDATE)) {
    record_fault(m->h->faults, "%s: %s %s", record_where(m->h), record_kind_name(event->kind),
                 fresh ? "adds to what is not there yet" : "overwrites what it must add to");
    return false;
  }
  stretch(m, use, o);
  if (o->access == RECORD_WRITE) *first = use + 1;
  return true;
}

// What is added to where it is read is read as one value and written as another.
static bool place_operands(matching *m, const record_event *event) {
  int first = 0;
  for (int i = 0; i < event->operand_count; i++) {
    record_operand o = event->operands[i];
    if (m->in->adds && o.access == RECORD_UPDATE) {
      o.access = RECORD_READ;
      if (!place_operand(m, event, &o, &first)) return false;
      o.access = RECORD_WRITE;
    } else if (m->in->adds && o.access == RECORD_WRITE) {
      record_fault(m->h->faults, "%s: %s overwrites what it must add to", record_where(m->h),
                   record_kind_name(event->kind));
      return false;
    }
    if (!place_operand(m, event, &o, &first)) return false;
  }
  return true;
}

// The group, the other end, and what moves are those of the module.
static bool check_ends(const matching *m, const record_event *event) {
  const bool message = record_is_message(event->kind);
  if (event->kind != m->in->kind || (!message && !record_is_collective(event->kind))) return true;
  if (message ? event->stage != m->in->stage : event->mask != m->in->mask) {
    record_fault(m->h->faults, "%s: with %s 0x%x, expected 0x%x", record_where(m->h),
                 message ? "stage" : "axes", (unsigned)(message ? event->stage : event->mask),
                 (unsigned)(message ? m->in->stage : m->in->mask));
    return false;
  }
  record_terms expected = m->in->terms;
  expected.line = event->terms.line; // of which the module knows nothing
  if (record_same_terms(&event->terms, &expected)) return true;
  record_fault(m->h->faults, "%s: moves other elements, or in another form", record_where(m->h));
  return false;
}

// What moves between ranks moves whole; a rank may hold less than its padded part of the rest.
static bool check_extent(const matching *m, int use) {
  char name[NAME];
  const int64_t touched = m->end[use] - m->start[use], bytes = m->uses[use].bytes;
  const bool whole = (record_is_collective(m->in->kind) || record_is_message(m->in->kind));
  if (m->start[use] >= 0 && touched <= bytes && (!whole || touched == bytes)) return true;
  record_fault(m->h->faults, "%s touches %lld bytes of %s, which has %lld", record_where(m->h),
               (long long)(m->start[use] < 0 ? 0 : touched),
               record_holding_name(m->h, value_of(m, use), name, sizeof name), (long long)bytes);
  return false;
}

static bool find_places(matching *m) {
  for (int i = 0; i < m->in->use_count; i++)
    m->start[i] = m->end[i] = -1;
  for (int i = 0; i < m->group->count; i++) {
    record_event *const event = &m->group->events[i];
    const bool launch = event->kind == RECORD_LAUNCH;
    if (launch ? !fill_launch(m, event) : !place_operands(m, event)) return false;
    if (!check_ends(m, event)) return false;
  }
  for (int i = 0; i < m->in->use_count; i++)
    if (!check_extent(m, i)) return false;
  return true;
}

// Where a value begins: a call of a library may take a part of what it reads.
static int64_t begin_of(const matching *m, int use) {
  const int64_t address = m->h->address[value_of(m, use)];
  return m->uses[use].access == RECORD_READ && address >= 0 ? address + m->uses[use].offset
                                                            : m->start[use];
}

static bool meet(const matching *m, int a, int b) {
  return begin_of(m, a) < begin_of(m, b) + m->uses[b].bytes &&
         begin_of(m, b) < begin_of(m, a) + m->uses[a].bytes;
}

// Results lie apart from each other and from the operands, save one that takes an operand's place.
static void check_apart(const matching *m) {
  char a[NAME], b[NAME];
  for (int i = 0; i < m->in->use_count; i++)
    for (int k = 0; m->uses[i].access != RECORD_READ && k < m->in->use_count; k++) {
      const bool operand = m->uses[k].access == RECORD_READ;
      if ((!operand && k >= i) || !meet(m, i, k)) continue;
      if (operand && m->in->in_place && begin_of(m, i) == begin_of(m, k) &&
          m->uses[i].bytes == m->uses[k].bytes)
        continue;
      record_fault(m->h->faults, "%s: %s and %s overlap", record_where(m->h),
                   record_holding_name(m->h, value_of(m, i), a, sizeof a),
                   record_holding_name(m->h, value_of(m, k), b, sizeof b));
    }
}

static void follow(const matching *m, int use) {
  char name[NAME];
  const int value = value_of(m, use);
  int64_t *const address = &m->h->address[value];
  const record_use *const u = &m->uses[use];
  if (u->access == RECORD_READ || u->access == RECORD_UPDATE) {
    // A launch tells where its operands begin, a call of a library may take a part.
    if (*address >= 0 && *address != m->start[use] && m->in->kind == RECORD_LAUNCH)
      record_fault(m->h->faults, "%s takes %s from %lld, it lies at %lld", record_where(m->h),
                   record_holding_name(m->h, value, name, sizeof name), (long long)m->start[use],
                   (long long)*address);
    else
      record_holding_read(m->h, value, *address >= 0 ? *address + u->offset : m->start[use],
                          u->bytes);
    return;
  }
  *address = m->start[use] - u->offset;
  record_holding_write(m->h, u->access == RECORD_SCRATCH ? m->h->scratch : value, m->start[use],
                       u->bytes);
}

// What the runtime uses beside the values: scratch holds nothing afterwards, messages hold copies.
static void follow_runtime(const matching *m, const record_event *event) {
  for (int i = 0; event->kind != RECORD_LAUNCH && i < event->operand_count; i++) {
    const record_operand *const o = &event->operands[i];
    if (o->access == RECORD_SCRATCH) {
      record_holding_write(m->h, m->h->scratch, o->start, o->bytes);
      continue;
    }
    const record_buffer *const b = record_holding_find(m->h, o->start, o->bytes);
    if (!b || b->weight >= 0) continue;
    if (o->access == RECORD_WRITE)
      record_holding_write(m->h, b->value, o->start, o->bytes);
    else
      record_holding_read(m->h, b->value, o->start, o->bytes);
  }
}

bool record_match(record_holding *h, const record_instruction *instruction, int micro_batch,
                  record_group *group) {
  matching m = {.h = h,
                .in = instruction,
                .uses = h->e->uses + instruction->first_use,
                .micro_batch = micro_batch,
                .group = group};
  if (instruction->use_count > MOST_USES) {
    record_fault(h->faults, "%s has %d operands", record_where(h), instruction->use_count);
    return false;
  }
  if (!check_kinds(&m) || !find_places(&m)) return false;
  for (int i = 0; i < group->count; i++)
    record_holding_touch(h, &group->events[i]);
  check_apart(&m);
  // Scratch first: what it covers is lost before it is read.
  for (int i = 0; i < group->count; i++)
    follow_runtime(&m, &group->events[i]);
  for (int writes = 0; writes < 2; writes++)
    for (int use = 0; use < instruction->use_count; use++)
      if ((m.uses[use].access != RECORD_READ) == writes) follow(&m, use);
  return true;
}
