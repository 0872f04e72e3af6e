#include "planner/choice/eliminate_order.h"

// An upper bound on the classes of a node's options that the factors left tell apart.
static int64_t classes_at_most(const bd_factor_pool *p, int node, int neighbour) {
  int64_t classes = 1;
  for (int i = 0; i < p->count; i++) {
    const bd_factor *f = &p->items[i];
    if (f->used || bd_factor_position(f, neighbour) < 0) continue;
    int at = bd_factor_position(f, node);
    if (at >= 0) classes *= f->views[at].classes;
    if (classes >= p->live_count[node]) return p->live_count[node];
  }
  return classes;
}

// The neighbours of `node` among the factors that are left; false when there are too many.
static bool find_neighbours(const bd_factor_pool *p, int node, bd_factor *out) {
  out->scope_count = 0;
  for (int i = 0; i < p->count; i++) {
    const bd_factor *f = &p->items[i];
    if (f->used || bd_factor_position(f, node) < 0) continue;
    for (int k = 0; k < f->scope_count; k++) {
      if (f->scope[k] == node || bd_factor_position(out, f->scope[k]) >= 0) continue;
      if (out->scope_count == BD_MAX_SCOPE) return false;
      out->scope[out->scope_count++] = f->scope[k];
    }
  }
  return true;
}

static int64_t visits_of(const bd_factor_pool *p, int node, const bd_factor *scope) {
  int64_t visits = classes_at_most(p, node, node);
  for (int i = 0; i < scope->scope_count && visits <= p->limit; i++)
    visits *= classes_at_most(p, scope->scope[i], node);
  return visits;
}

int bd_pool_cheapest_node(const bd_factor_pool *p, int nodes, const bool *gone, int last) {
  int found = -1;
  int64_t least = p->limit;
  for (int i = 0; i < nodes; i++) {
    bd_factor scope;
    if (gone[i] || i == last || !find_neighbours(p, i, &scope)) continue;
    int64_t visits = visits_of(p, i, &scope);
    if (visits > least || (found >= 0 && visits == least)) continue;
    least = visits;
    found = i;
  }
  return found;
}

// Some of the factors of a node, and the other nodes that they see, with the product of the classes
// of each.
typedef struct bucket {
  int node, factor_count;
  bd_factor **factors;
  bd_factor scope;
  int64_t own, seen[BD_MAX_SCOPE];
} bucket;

static int64_t capped(int64_t classes, int view, int options) {
  return classes * view < options ? classes * view : options;
}

// Puts a factor into the bucket unless it would then visit more entries than a step may.
static bool add_to_bucket(const bd_factor_pool *p, bucket *b, bd_factor *f) {
  bucket more = *b;
  for (int i = 0; i < f->scope_count; i++) {
    int node = f->scope[i], at = bd_factor_position(&more.scope, node),
        options = p->live_count[node];
    if (node == b->node) {
      more.own = capped(more.own, f->views[i].classes, options);
      continue;
    }
    if (at < 0 && more.scope.scope_count == BD_MAX_SCOPE) return false;
    if (at < 0) {
      at = more.scope.scope_count++;
      more.scope.scope[at] = node;
      more.seen[at] = 1;
    }
    more.seen[at] = capped(more.seen[at], f->views[i].classes, options);
  }
  int64_t visits = more.own;
  for (int i = 0; i < more.scope.scope_count && visits <= p->limit; i++)
    visits *= more.seen[i];
  if (visits > p->limit && b->factor_count > 0 && more.scope.scope_count > 0) return false;
  *b = more;
  b->factors[b->factor_count++] = f;
  f->used = true;
  return true;
}

bd_factor **bd_pool_take_bucket(bd_arena *arena, bd_factor_pool *p, int node, int *out_count,
                                bd_factor *out_scope) {
  bucket b = {.node = node, .own = 1};
  int most = 0;
  for (int i = 0; i < p->count; i++)
    most += !p->items[i].used && bd_factor_position(&p->items[i], node) >= 0;
  b.factors = BD_NEW_ARRAY(arena, bd_factor *, most);
  for (int i = 0; i < p->count; i++) {
    bd_factor *f = &p->items[i];
    if (!f->used && bd_factor_position(f, node) >= 0) (void)add_to_bucket(p, &b, f);
  }
  *out_count = b.factor_count;
  *out_scope = b.scope;
  return b.factors;
}

bool bd_pool_sees(const bd_factor_pool *p, int node) {
  for (int i = 0; i < p->count; i++)
    if (!p->items[i].used && bd_factor_position(&p->items[i], node) >= 0) return true;
  return false;
}
