#include "planner/choice/eliminate_step.h"
#include "planner/choice/classify.h"

int64_t bd_factor_size(const bd_factor *f) {
  int64_t size = 1;
  for (int i = 0; i < f->scope_count; i++) {
    size *= f->views[i].classes;
    if (size > BD_TABLE_LIMIT) return size;
  }
  return size;
}

void bd_factor_set_strides(bd_factor *f) {
  int64_t stride = 1;
  for (int i = f->scope_count - 1; i >= 0; i--) {
    f->stride[i] = stride;
    stride *= f->views[i].classes;
  }
}

int bd_factor_position(const bd_factor *f, int node) {
  for (int i = 0; i < f->scope_count; i++)
    if (f->scope[i] == node) return i;
  return -1;
}

bd_view bd_view_join(bd_arena *arena, bd_arena *scratch, int count, int view_count,
                     const bd_view *const *views) {
  if (view_count == 1) return *views[0];
  if (view_count == 0) return (bd_view){1, BD_NEW_ARRAY(arena, int, count)};
  int *keys = BD_NEW_ARRAY(scratch, int, (int64_t)count *view_count);
  for (int x = 0; x < count; x++)
    for (int i = 0; i < view_count; i++)
      keys[(size_t)x * (size_t)view_count + (size_t)i] = views[i]->class_of[x];
  bd_classes joint = bd_classify(arena, scratch, keys, sizeof *keys * (size_t)view_count, count);
  return (bd_view){joint.count, joint.class_of};
}

// What the factors that see a node tell of its options.
static bd_view joint_view(bd_arena *arena, bd_arena *scratch, const bd_step *s, int node,
                          int options) {
  const bd_view **views = bd_arena_array(scratch, (size_t)s->factor_count, sizeof *views);
  int count = 0;
  for (int i = 0; i < s->factor_count; i++) {
    int at = bd_factor_position(s->factors[i], node);
    if (at >= 0) views[count++] = &s->factors[i]->views[at];
  }
  return bd_view_join(arena, scratch, options, count, views);
}

// Where the entries of each factor lie for the classes of the node and of the message's scope.
static void find_offsets(bd_arena *arena, const int *live_count, bd_step *s) {
  s->own_offset = BD_NEW_ARRAY(arena, int64_t *, s->factor_count);
  s->offset = BD_NEW_ARRAY(arena, int64_t **, s->factor_count);
  for (int i = 0; i < s->factor_count; i++) {
    const bd_factor *f = s->factors[i];
    int own = bd_factor_position(f, s->node);
    s->own_offset[i] = BD_NEW_ARRAY(arena, int64_t, s->own.classes);
    for (int x = 0; x < s->options; x++)
      s->own_offset[i][s->own.class_of[x]] = f->stride[own] * f->views[own].class_of[x];
    s->offset[i] = BD_NEW_ARRAY(arena, int64_t *, s->message->scope_count);
    for (int k = 0; k < s->message->scope_count; k++) {
      int node = s->message->scope[k], at = bd_factor_position(f, node);
      const bd_view *joint = &s->message->views[k];
      s->offset[i][k] = BD_NEW_ARRAY(arena, int64_t, joint->classes);
      for (int x = 0; at >= 0 && x < live_count[node]; x++)
        s->offset[i][k][joint->class_of[x]] = f->stride[at] * f->views[at].class_of[x];
    }
  }
}

// The neighbour that the fewest factors see goes last: its entries take the least work.
static void put_lonely_last(const bd_step *s, bd_factor *message) {
  int lonely = 0, least = s->factor_count + 1, last = message->scope_count - 1;
  for (int k = 0; k <= last; k++) {
    int seeing = 0;
    for (int f = 0; f < s->factor_count; f++)
      seeing += bd_factor_position(s->factors[f], message->scope[k]) >= 0;
    bool wider = seeing == least && message->views[k].classes > message->views[lonely].classes;
    if (seeing > least || (seeing == least && !wider)) continue;
    least = seeing;
    lonely = k;
  }
  if (last < 0) return;
  int node = message->scope[lonely];
  bd_view seen = message->views[lonely];
  message->scope[lonely] = message->scope[last];
  message->views[lonely] = message->views[last];
  message->scope[last] = node;
  message->views[last] = seen;
}

static void init_ranking(bd_arena *arena, bd_step *s) {
  int most = bd_ranking_room(s->own.classes);
  bd_ranking *r = &s->ranking;
  r->order = BD_NEW_ARRAY(arena, int, most);
  r->key = BD_NEW_ARRAY(arena, double, most);
  r->sum = BD_NEW_ARRAY(arena, double, most);
  r->floor = BD_NEW_ARRAY(arena, double, most / BD_LANES);
  r->from = BD_NEW_ARRAY(arena, int64_t *, s->seeing_count);
  s->least = BD_NEW_ARRAY(arena, double *, s->seeing_count);
  for (int i = 0; i < s->seeing_count; i++) {
    r->from[i] = BD_NEW_ARRAY(arena, int64_t, most);
    s->least[i] = BD_NEW_ARRAY(arena, double, s->own.classes);
  }
}

bool bd_step_init(bd_step *s, bd_arena *arena, bd_arena *scratch, const int *live_count, int node,
                  int factor_count, bd_factor **factors, const bd_factor *scope,
                  bd_factor *message) {
  s->node = node;
  s->options = live_count[node];
  s->factors = factors;
  s->factor_count = factor_count;
  s->own = joint_view(arena, scratch, s, node, s->options);
  *message = *scope;
  for (int k = 0; k < message->scope_count; k++)
    message->views[k] =
        joint_view(arena, scratch, s, message->scope[k], live_count[message->scope[k]]);
  put_lonely_last(s, message);
  int64_t size = bd_factor_size(message);
  if (size * s->own.classes > BD_TABLE_LIMIT) return false;
  message->used = message->scope_count == 0;
  bd_factor_set_strides(message);
  message->table = BD_NEW_ARRAY(arena, double, size);
  s->message = message;
  s->value = BD_NEW_ARRAY(arena, double, s->own.classes);
  s->sum = BD_NEW_ARRAY(arena, double, s->own.classes);
  s->cheapest = BD_NEW_ARRAY(arena, int, s->own.classes);
  s->seeing = BD_NEW_ARRAY(arena, int, factor_count);
  s->blind = BD_NEW_ARRAY(arena, int, factor_count);
  for (int f = 0, blind = 0; f < factor_count; f++) {
    int last = message->scope_count - 1;
    bool sees = last >= 0 && bd_factor_position(factors[f], message->scope[last]) >= 0;
    *(sees ? &s->seeing[s->seeing_count++] : &s->blind[blind++]) = f;
  }
  s->base = bd_arena_array(arena, (size_t)s->seeing_count, sizeof *s->base);
  s->row = bd_arena_array(arena, (size_t)s->seeing_count, sizeof *s->row);
  init_ranking(arena, s);
  find_offsets(arena, live_count, s);
  return true;
}
