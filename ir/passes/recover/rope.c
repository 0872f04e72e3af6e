#include "ir/passes/recover/rope.h"
#include "ir/passes/recover/matched.h"
#include "ir/passes/recover/views.h"
#include <math.h>
#include <string.h>

// Su et al., "RoFormer", section 3.2.2, with halves in the place of neighbours.
static const char rotated[] = "add(mul(?x,?c),mul(concat(neg(?u:slice(?x)),?v:slice(?x)),?s))";
static const double rounding = 3e-7; // relative: of angles that were f32

// A table over places and the width of a head: all elements, or the frequencies of its angles.
typedef struct table {
  const bd_attr *list;
  bool has_frequencies;
  int64_t places, width;
  int place_dim; // of what is rotated
} table;

static const bd_op *producer_of(const bd_edit *e, bd_id id, bd_op_kind kind) {
  const bd_op *op = bd_edit_producer(e, id);
  return op && op->kind == kind ? op : NULL;
}

// cos(place * frequency), or sin: the list of frequencies.
static const bd_attr *find_frequencies(const bd_edit *e, const bd_op *op, bool sine) {
  if (op->kind != (sine ? BD_OP_SIN : BD_OP_COS)) return NULL;
  const bd_op *product = producer_of(e, op->in[0], BD_OP_MUL);
  if (!product) return NULL;
  for (int i = 0; i < 2; ++i) {
    const bd_op *place = producer_of(e, product->in[i], BD_OP_IOTA);
    const bd_op *list = producer_of(e, product->in[1 - i], BD_OP_CONSTANT);
    if (place && list && bd_op_int(place, "dim", 0) == 0 &&
        e->from->values[list->out[0]].type.rank == 1)
      return bd_op_find_attr(list, "values");
  }
  return NULL;
}

// Where the table's two dimensions stand in what is rotated, of `rank`; repetitions are gone
// through, and a slice of the first places.
static bool find_table(const bd_edit *e, bd_id id, int rank, bool sine, table *out) {
  bd_lettered at = {.id = id};
  const bd_type *type = &e->from->values[id].type;
  for (int d = 0; d < type->rank; ++d)
    at.letters[d] = (char)('a' + rank - type->rank + d);
  while (bd_strip_view(e, "abcdefgh", &at))
    continue;
  type = &e->from->values[at.id].type;
  if (type->rank != 2 || at.letters[1] != 'a' + rank - 1) return false;
  *out = (table){.places = type->dims[0], .width = type->dims[1], .place_dim = at.letters[0] - 'a'};
  const bd_op *op = producer_of(e, at.id, BD_OP_SLICE);
  if (op) {
    if (bd_op_int(op, "dim", 0) != 0 || bd_op_int(op, "start", 0) != 0 ||
        bd_op_int(op, "step", 1) != 1)
      return false;
    at.id = op->in[0];
  }
  op = bd_edit_producer(e, at.id);
  if (!op) return false;
  out->list = find_frequencies(e, op, sine);
  out->has_frequencies = out->list != NULL;
  if (op->kind == BD_OP_CONSTANT) out->list = bd_op_find_attr(op, "values");
  return out->list && out->list->kind == BD_ATTR_REALS;
}

// The number whose powers the frequencies are, from the least of them.
static double find_theta(const table *sine) {
  int64_t last = sine->width / 2 - 1, place = sine->places - 1;
  if (last == 0) return 10000;
  double frequency = sine->has_frequencies
                         ? sine->list->reals[last]
                         : asin(sine->list->reals[place * sine->width + last]) / (double)place;
  double theta = pow(frequency, -(double)sine->width / (2 * (double)last));
  return fabs(theta - round(theta)) <= 1e-5 * theta ? round(theta) : theta;
}

// Whether angles of two frequencies have the same cosines, or sines, up to the rounding of f32, at
// all places up to `last`. Small angles tell cosines apart less.
static bool are_same_angles(double frequency, double wanted, double last, bool sine) {
  double most = last * (frequency > wanted ? frequency : wanted);
  double apart = last * fabs(frequency - wanted) * (sine || most > 1 ? 1 : most);
  return apart <= rounding * (3 + last * wanted);
}

static bool is_table_of(const table *t, bool sine, double theta) {
  for (int64_t i = 0; i < t->width; ++i) {
    double pair = (double)(i % (t->width / 2)), last = (double)(t->places - 1);
    double frequency = pow(theta, -2 * pair / (double)t->width);
    if (t->has_frequencies && !are_same_angles(t->list->reals[i], frequency, last, sine))
      return false;
    for (int64_t place = 0; !t->has_frequencies && place < t->places; ++place) {
      double angle = (double)place * frequency, wanted = sine ? sin(angle) : cos(angle);
      double found = t->list->reals[place * t->width + i];
      if (!(fabs(found - wanted) <= rounding * (3 + angle))) return false;
    }
  }
  return true;
}

static bool is_slice(const bd_edit *e, bd_id id, int64_t dim, int64_t start, int64_t size) {
  const bd_op *op = bd_edit_producer(e, id);
  return bd_op_int(op, "dim", 0) == dim && bd_op_int(op, "start", 0) == start &&
         bd_op_int(op, "size", 0) == size && bd_op_int(op, "step", 1) == 1;
}

// What a match turns, by powers of `theta` over dimension `place`.
typedef struct rotation {
  bd_id x;
  int place;
  int64_t width; // of x, its last dimension
  double theta;
} rotation;

// Whether the match turns halves, the second one's negative first.
static bool is_rotation(const bd_edit *e, const bd_match *match, rotation *out) {
  const bd_type *x = &e->from->values[match->value['x' - 'a']].type;
  int64_t last = x->rank - 1, width = x->rank >= 3 ? x->dims[last] : 0;
  table cosine, sine;
  if (width < 2 || width % 2 != 0 || x->dtype == BD_F64 ||
      !is_slice(e, match->value['u' - 'a'], last, width / 2, width / 2) ||
      !is_slice(e, match->value['v' - 'a'], last, 0, width / 2) ||
      !find_table(e, match->value['c' - 'a'], x->rank, false, &cosine) ||
      !find_table(e, match->value['s' - 'a'], x->rank, true, &sine))
    return false;
  *out = (rotation){match->value['x' - 'a'], sine.place_dim, width, 0};
  if (cosine.place_dim != sine.place_dim || sine.place_dim == 0 || sine.place_dim >= last ||
      sine.places < 2 || sine.width != width)
    return false;
  out->theta = find_theta(&sine);
  return out->theta > 0 && isfinite(out->theta) && is_table_of(&cosine, false, out->theta) &&
         is_table_of(&sine, true, out->theta);
}

static bool find_rotation(const bd_edit *e, bd_id id, rotation *out) {
  const bd_op *op = producer_of(e, id, BD_OP_ADD);
  bd_match match;
  return op && producer_of(e, op->in[0], BD_OP_MUL) && producer_of(e, op->in[1], BD_OP_MUL) &&
         bd_pattern_match(bd_pattern_read(e->ctx, rotated), e->from, id, &match) &&
         bd_match_is_closed(e, &match, id) && is_rotation(e, &match, out);
}

// Whether `op` puts the rest of each head behind what a rotation makes of its first elements, which
// nothing else reads; *r then is of the whole.
static bool is_part_rotated(const bd_edit *e, const bd_op *op, rotation *r) {
  if (op->in_count != 2 || !find_rotation(e, op->in[0], r)) return false;
  const bd_op *turned = producer_of(e, r->x, BD_OP_SLICE);
  const bd_op *rest = producer_of(e, op->in[1], BD_OP_SLICE);
  if (!turned || !rest || turned->in[0] != rest->in[0] || bd_edit_reads(e, op->in[0]) != 1)
    return false;
  const bd_type *whole = &e->from->values[turned->in[0]].type;
  int last = whole->rank - 1;
  r->x = turned->in[0];
  return bd_op_int(op, "dim", 0) == last && is_slice(e, turned->out[0], last, 0, r->width) &&
         is_slice(e, rest->out[0], last, r->width, whole->dims[last] - r->width);
}

// rope takes [samples, places, heads, width], and turns the first `width` elements of a head of x.
static bd_status emit(bd_edit *e, bd_id x, const rotation *r, bd_id *out) {
  bd_type type = e->from->values[x].type;
  char letters[BD_MAX_RANK + 1] = {0}, wanted[BD_MAX_RANK + 1] = {'a', (char)('a' + r->place)};
  int64_t dims[4] = {type.dims[0], type.dims[r->place], 1, type.dims[type.rank - 1]};
  int64_t turned[BD_MAX_RANK] = {dims[0], dims[1]};
  for (int d = 0, at = 2; d < type.rank; ++d) {
    letters[d] = (char)('a' + d);
    if (d == 0 || d == r->place) continue;
    if (d < type.rank - 1) dims[2] *= type.dims[d];
    turned[at] = type.dims[d];
    wanted[at++] = letters[d];
  }
  *out = bd_edit_value(e, x);
  bd_attr attrs[] = {bd_attr_real(e->ctx, "theta", r->theta),
                     bd_attr_int(e->ctx, "turned", r->width)};
  BD_TRY(bd_emit_turned(e, letters, wanted, out));
  BD_TRY(bd_emit_reshaped(e, 4, dims, out));
  BD_TRY(bd_edit_emit(e, BD_OP_ROPE, 1, out, r->width < dims[3] ? 2 : 1, attrs, out));
  BD_TRY(bd_emit_reshaped(e, type.rank, turned, out));
  return bd_emit_turned(e, wanted, letters, out);
}

bd_status bd_recover_rope(bd_edit *e, const void *user) {
  (void)user;
  const bd_op *op = &e->from->ops[e->at];
  rotation r;
  bd_id made;
  bool found = op->kind == BD_OP_ADD      ? find_rotation(e, op->out[0], &r)
               : op->kind == BD_OP_CONCAT ? is_part_rotated(e, op, &r)
                                          : false;
  if (!found) return BD_OK;
  BD_TRY(emit(e, r.x, &r, &made));
  bd_edit_stand(e, op->out[0], made);
  return BD_OK;
}
