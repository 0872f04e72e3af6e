#include "planner/choice/eliminate_step.h"
#include <math.h>
#include <string.h>

enum { FEW = 32 }; // classes of a node that it takes longer to rank than to look at

// The node's cheapest option of each class.
static void find_cheapest(bd_step *s, const double *value) {
  for (int c = 0; c < s->own.classes; c++)
    s->value[c] = INFINITY;
  memset(s->cheapest, 0, sizeof *s->cheapest * (size_t)s->own.classes);
  for (int x = 0; x < s->options; x++) {
    int c = s->own.class_of[x];
    double own = value ? value[x] : 0;
    if (own >= s->value[c]) continue;
    s->value[c] = own;
    s->cheapest[c] = x;
  }
}

// The entries of a factor for an assignment of the first `scope` neighbours.
static const double *row_of(const bd_step *s, int f, const int *assigned, int scope) {
  const double *row = s->factors[f]->table;
  for (int k = 0; k < scope; k++)
    row += s->offset[f][k][assigned[k]];
  return row;
}

// For every class that a factor sees of the node, its least entry; the entries of one class lie
// `stride` by `stride`.
static void find_least(const bd_step *s, const bd_factor *f, const int64_t *own_offset,
                       double *least) {
  int at = bd_factor_position(f, s->node), classes = f->views[at].classes;
  int64_t stride = f->stride[at], size = bd_factor_size(f);
  for (int c = 0; c < s->own.classes; c++) {
    const double *entry = f->table + own_offset[c];
    double own = INFINITY;
    for (int64_t block = 0; block < size; block += stride * classes)
      for (int64_t i = 0; i < stride; i++)
        own = entry[block + i] < own ? entry[block + i] : own;
    least[c] = own;
  }
}

// Classes whose key is not above `limit` by rising keys, roughly: by equal steps of the key.
static int sort_roughly(const double *key, int count, double lowest, double limit, int *order) {
  enum { STEPS = 64 };
  int start[STEPS + 1] = {0}, kept = 0;
  double scale = limit > lowest ? (STEPS - 1) / (limit - lowest) : 0;
  for (int c = 0; c < count; c++)
    if (key[c] <= limit) start[1 + (int)((key[c] - lowest) * scale)]++;
  for (int i = 0; i < STEPS; i++)
    start[i + 1] += start[i];
  for (int c = 0; c < count; c++) {
    if (key[c] > limit) continue;
    order[start[(int)((key[c] - lowest) * scale)]++] = c;
    kept++;
  }
  return kept;
}

// Per own class, what does not depend on the last neighbour.
static void find_sums(bd_step *s, const int *assigned, int last) {
  int count = s->own.classes;
  memcpy(s->sum, s->value, sizeof *s->sum * (size_t)count);
  for (int i = 0; i < s->factor_count - s->seeing_count; i++) {
    const double *row = row_of(s, s->blind[i], assigned, last);
    const int64_t *offset = s->own_offset[s->blind[i]];
    for (int c = 0; c < count; c++)
      s->sum[c] += row[offset[c]];
  }
}

// Per own class, that, and below which no entry of its lies. The class of the least key, or -1:
// there is none.
static int find_keys(bd_step *s, const int *assigned, int last) {
  int count = s->own.classes, lowest = -1;
  double *key = s->ranking.key;
  find_sums(s, assigned, last);
  memcpy(key, s->sum, sizeof *key * (size_t)count);
  for (int i = 0; i < s->seeing_count; i++)
    for (int c = 0; c < count; c++)
      key[c] += s->least[i][c];
  for (int c = 0; c < count; c++)
    if (key[c] < INFINITY && (lowest < 0 || key[c] < key[lowest])) lowest = c;
  return lowest;
}

// Entries of one class for all of the last neighbour's; the greatest of them.
static double entries_of(const bd_step *s, int class, const double *const *base, double *out) {
  int last = s->message->scope_count - 1;
  double most = -INFINITY;
  for (int q = 0; q < s->message->views[last].classes; q++) {
    double entry = s->sum[class];
    for (int i = 0; i < s->seeing_count; i++) {
      int f = s->seeing[i];
      entry += base[i][s->offset[f][last][q] + s->own_offset[f][class]];
    }
    out[q] = entry;
    most = entry > most ? entry : most;
  }
  return most;
}

// Puts classes that may be better somewhere than `first`, of which no entry is above `most`, in
// their order.
static void rank_classes(bd_step *s, int first, double most) {
  bd_ranking *r = &s->ranking;
  double lowest = r->key[first], limit = isfinite(most) ? most : lowest;
  for (int c = 0; c < s->own.classes && !isfinite(most); c++)
    if (isfinite(r->key[c]) && r->key[c] > limit) limit = r->key[c];
  int kept = sort_roughly(r->key, s->own.classes, lowest, limit, r->order);
  r->count = bd_ranking_room(kept);
  for (int i = 0; i < r->count; i++)
    r->sum[i] = i < kept ? s->sum[r->order[i]] : INFINITY;
  for (int k = 0; k < s->seeing_count; k++)
    for (int i = 0; i < r->count; i++)
      r->from[k][i] = i < kept ? s->own_offset[s->seeing[k]][r->order[i]] : 0;
  double floor = INFINITY;
  for (int i = kept - 1; i >= 0; i--) {
    floor = fmin(floor, r->key[r->order[i]]);
    if (i % BD_LANES == 0) r->floor[i / BD_LANES] = floor;
  }
}

static double lesser(double a, double b) {
  return a < b ? a : b;
}

_Static_assert(BD_LANES == 4, "the least of all lanes is that of four");

// The least entry over the classes for one of the last neighbour's, unless it is `best` or more.
static double least_entry(const bd_step *s, const double *const *row, double best) {
  const bd_ranking *r = &s->ranking;
  for (int at = 0; at < r->count && r->floor[at / BD_LANES] < best; at += BD_LANES) {
    double entry[BD_LANES];
    for (int lane = 0; lane < BD_LANES; lane++)
      entry[lane] = r->sum[at + lane] + row[0][r->from[0][at + lane]];
    for (int k = 1; k < s->seeing_count; k++)
      for (int lane = 0; lane < BD_LANES; lane++)
        entry[lane] += row[k][r->from[k][at + lane]];
    best = lesser(lesser(lesser(entry[0], entry[1]), lesser(entry[2], entry[3])), best);
  }
  return best;
}

// Lowers entries to those of one class that one factor tells apart.
static void lower_entries(double sum, const double *row, const int64_t *offset, int count,
                          double *restrict out) {
  for (int q = 0; q < count; q++)
    out[q] = lesser(sum + row[offset[q]], out[q]);
}

// Entries for all classes of the last neighbour, the others being assigned: of one class of the
// node after another, of which there are few.
static void minimize_few(bd_step *s, const int *assigned, double *out) {
  int last = s->message->scope_count - 1, classes = s->message->views[last].classes;
  find_sums(s, assigned, last);
  for (int i = 0; i < s->seeing_count; i++)
    s->base[i] = row_of(s, s->seeing[i], assigned, last);
  for (int q = 0; q < classes; q++)
    out[q] = INFINITY;
  for (int c = 0; c < s->own.classes; c++) {
    if (isinf(s->sum[c])) continue;
    for (int i = 0; i < s->seeing_count; i++)
      s->row[i] = s->base[i] + s->own_offset[s->seeing[i]][c];
    if (s->seeing_count == 1)
      lower_entries(s->sum[c], s->row[0], s->offset[s->seeing[0]][last], classes, out);
    for (int q = 0; q < classes && s->seeing_count > 1; q++) {
      double entry = s->sum[c];
      for (int i = 0; i < s->seeing_count; i++)
        entry += s->row[i][s->offset[s->seeing[i]][last][q]];
      out[q] = lesser(entry, out[q]);
    }
  }
}

// The last neighbour runs fastest. Entries for all of its classes, the others being assigned. The
// entry of a class is at least its key, so that few classes are looked at.
static void minimize_row(bd_step *s, const int *assigned, double *out) {
  int last = s->message->scope_count - 1, classes = s->message->views[last].classes;
  const double **base = s->base;
  int first = find_keys(s, assigned, last);
  for (int q = 0; q < classes && first < 0; q++)
    out[q] = INFINITY;
  if (first < 0) return;
  for (int i = 0; i < s->seeing_count; i++)
    base[i] = row_of(s, s->seeing[i], assigned, last);
  rank_classes(s, first, entries_of(s, first, base, out));
  for (int q = 0; q < classes; q++) {
    for (int i = 0; i < s->seeing_count; i++)
      s->row[i] = base[i] + s->offset[s->seeing[i]][last][q];
    out[q] = least_entry(s, s->row, out[q]);
  }
}

int bd_step_best_class(const bd_step *s, const int *assigned, double *out_least) {
  int best = 0;
  *out_least = INFINITY;
  for (int c = 0; c < s->own.classes; c++) {
    double total = s->value[c];
    for (int f = 0; f < s->factor_count; f++)
      total += row_of(s, f, assigned, s->message->scope_count)[s->own_offset[f][c]];
    if (total >= *out_least) continue;
    *out_least = total;
    best = c;
  }
  return best;
}

void bd_step_run(bd_step *s, const double *value) {
  find_cheapest(s, value);
  int assigned[BD_MAX_SCOPE] = {0}, scope = s->message->scope_count;
  if (!scope) {
    bd_step_best_class(s, assigned, &s->message->table[0]);
    return;
  }
  bool few = s->own.classes <= FEW;
  for (int i = 0; i < s->seeing_count && !few; i++)
    find_least(s, s->factors[s->seeing[i]], s->own_offset[s->seeing[i]], s->least[i]);
  int64_t size = bd_factor_size(s->message), row = s->message->views[scope - 1].classes;
  for (int64_t index = 0; index < size; index += row) {
    (few ? minimize_few : minimize_row)(s, assigned, s->message->table + index);
    for (int i = scope - 2; i >= 0; i--) {
      if (++assigned[i] < s->message->views[i].classes) break;
      assigned[i] = 0;
    }
  }
}

void bd_step_add(const bd_step *s, const int *assigned, double *total) {
  for (int f = 0; f < s->factor_count; f++) {
    const double *row = row_of(s, f, assigned, s->message->scope_count);
    for (int x = 0; x < s->options; x++)
      total[x] += row[s->own_offset[f][s->own.class_of[x]]];
  }
}
