// Ops that repeat elements or set them apart: tiles, padding, blocks of images.
#include "frontend/onnx/lower/layout.h"
#include <string.h>

// Each dimension in turn: [.., n, ..] becomes [.., times, n, ..], which is [.., times * n, ..].
static bd_status lower_tile(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  int count = 0;
  const bd_onnx_number *times;
  bd_onnx_part part;
  bd_onnx_number dims[BD_MAX_RANK], apart[BD_MAX_RANK + 1], repeated[BD_MAX_RANK + 1];
  BD_TRY(bd_onnx_numbers(step, NULL, 1, &count, &times));
  BD_TRY(bd_onnx_indices(l, step, 0, &part));
  memcpy(dims, in->dims, (size_t)in->rank * sizeof *dims);
  for (int d = 0; d < in->rank; d++) {
    if (bd_onnx_is(times[d], 1)) continue;
    if (in->rank == BD_MAX_RANK)
      return bd_onnx_step_fail(step, BD_UNSUPPORTED, "repeats a value of 8 dimensions");
    for (int k = 0; k <= in->rank; k++)
      repeated[k] = apart[k] = k < d ? dims[k] : k == d ? bd_onnx_whole(1) : dims[k - 1];
    repeated[d] = times[d];
    BD_TRY(bd_onnx_regroup(l, step, in->rank + 1, apart, &part));
    BD_TRY(bd_onnx_spread(l, step, in->rank + 1, &part, in->rank + 1, repeated));
    dims[d] = step->out[0].dims[d];
    BD_TRY(bd_onnx_regroup(l, step, in->rank, dims, &part));
  }
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}

// The operand's element that stands at place `at` past either end of `extent`.
static int64_t mirrored(const char *mode, int64_t at, int64_t extent) {
  if (strcmp(mode, "edge") == 0) return at < 0 ? 0 : at >= extent ? extent - 1 : at;
  if (strcmp(mode, "wrap") == 0) return ((at % extent) + extent) % extent;
  int64_t period = extent > 1 ? 2 * (extent - 1) : 1;
  at = ((at % period) + period) % period;
  return at < extent ? at : period - at;
}

// Padding by elements of the operand: a lookup of numbers that are known.
static bd_status pad_by_elements(bd_onnx_lowering *l, const bd_onnx_step *step, const char *mode,
                                 int dim, int64_t before, int64_t size, bd_id *x) {
  enum { MOST = 256 };
  int64_t places[MOST], extent = bd_onnx_type(l, *x)->dims[dim];
  bd_id ids;
  if (size > MOST)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "pads to more than %d elements by \"%s\"", MOST,
                             mode);
  for (int64_t i = 0; i < size; i++)
    places[i] = mirrored(mode, i - before, extent);
  bd_attr attrs[] = {bd_attr_string(l->ctx, "dtype", "i32"), bd_attr_ints(l->ctx, "dims", 1, &size),
                     bd_attr_ints(l->ctx, "values", (int)size, places)};
  BD_TRY(bd_onnx_emit(l, BD_OP_CONSTANT, 0, NULL, 3, attrs, &ids));
  bd_attr along = bd_attr_int(l->ctx, "dim", dim);
  return bd_onnx_emit(l, BD_OP_GATHER, 2, (bd_id[]){*x, ids}, 1, &along, x);
}

static bd_status pad_by_value(bd_onnx_lowering *l, double value, int dim, int64_t before,
                              int64_t size, bd_id *x) {
  bd_attr attrs[] = {bd_attr_int(l->ctx, "dim", dim), bd_attr_int(l->ctx, "start", before),
                     bd_attr_int(l->ctx, "size", size), bd_attr_real(l->ctx, "value", value)};
  return bd_onnx_emit(l, BD_OP_PAD, 1, x, value == 0 ? 3 : 4, attrs, x);
}

// Padding of one dimension; what is negative is cut off first.
static bd_status pad_dim(bd_onnx_lowering *l, const bd_onnx_step *step, int axis, int64_t before,
                         int64_t after, double value, bd_onnx_part *part) {
  const bd_onnx_fact *in = step->in[0];
  const char *mode = bd_onnx_text(step, "mode", "constant");
  int64_t extent = in->dims[axis].integer, first = before < 0 ? -before : 0;
  int64_t kept = extent - first + (after < 0 ? after : 0);
  int dim;
  if (before == 0 && after == 0) return BD_OK;
  if (kept < 1) return bd_onnx_step_fail(step, BD_UNSUPPORTED, "cuts off a whole dimension");
  BD_TRY(bd_onnx_one_dim(l, step, in->rank, axis, in->dims[axis], part, &dim));
  BD_TRY(bd_onnx_emit_slice(l, part->id, dim, first, kept, &part->id));
  before = before < 0 ? 0 : before;
  int64_t size = kept + before + (after < 0 ? 0 : after);
  if (size == kept) return BD_OK;
  if (strcmp(mode, "constant") == 0) return pad_by_value(l, value, dim, before, size, &part->id);
  return pad_by_elements(l, step, mode, dim, before, size, &part->id);
}

static bd_status pad_value(bd_onnx_lowering *l, const bd_onnx_step *step, double *out) {
  bd_onnx_number number = {.real = bd_onnx_real(step, "value", 0)};
  bool same = true, real = bd_onnx_is_float(step->in[0]->dtype);
  *out = number.real;
  if (!step->in[2]) return BD_OK;
  BD_TRY(bd_onnx_same_number(l, step, 2, &same, &number));
  *out = real ? number.real : (double)number.integer;
  return same ? BD_OK
              : bd_onnx_step_fail(step, BD_UNSUPPORTED, "does not know its padding beforehand");
}

static bd_status lower_pad(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  const bd_onnx_number *pads, *axes;
  int count = 0, axis_count = 0, axis;
  double value;
  bd_onnx_part part;
  BD_TRY(bd_onnx_numbers(step, step->rule->since < 2 ? "paddings" : "pads", 1, &count, &pads));
  BD_TRY(bd_onnx_numbers(step, NULL, 3, &axis_count, &axes));
  BD_TRY(pad_value(l, step, &value));
  BD_TRY(bd_onnx_operand(l, step, 0, &part));
  for (int i = 0; i < count / 2; i++) {
    BD_TRY(bd_onnx_axis(step, axes ? axes[i].integer : i, in->rank, &axis));
    BD_TRY(pad_dim(l, step, axis, pads[i].integer, pads[count / 2 + i].integer, value, &part));
  }
  BD_TRY(bd_onnx_regroup(l, step, in->rank, step->out[0].dims, &part));
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}

// Reshape, transpose, reshape: `order` names the letters of `apart` (six dimensions).
static bd_status rearrange(bd_onnx_lowering *l, const bd_onnx_step *step,
                           const bd_onnx_number apart[6], const int order[6]) {
  bd_onnx_part part, turned = {0};
  char from[BD_MAX_RANK + 1] = {0}, to[BD_MAX_RANK + 1] = {0};
  int count = 0;
  BD_TRY(bd_onnx_indices(l, step, 0, &part));
  BD_TRY(bd_onnx_regroup(l, step, 6, apart, &part));
  for (int d = 0; d < 6; d++)
    for (int i = part.first[order[d]]; i < part.first[order[d] + 1]; i++)
      to[count++] = (char)('a' + i);
  for (int i = 0; i < count; i++)
    from[i] = (char)('a' + i);
  turned.id = part.id;
  if (strcmp(from, to) != 0) {
    const char *rule = bd_intern_f(l->ctx, "%s->%s", from, to);
    BD_TRY(bd_onnx_emit_rule(l, BD_OP_PERMUTE, 1, &part.id, rule, &turned.id));
  }
  BD_TRY(bd_onnx_regroup(l, step, 4, step->out[0].dims, &turned));
  bd_onnx_made(l, step, 0, turned);
  return BD_OK;
}

static bd_status lower_depth_to_space(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const bd_onnx_number *in = step->in[0]->dims, *out = step->out[0].dims;
  bd_onnx_number block = bd_onnx_whole(bd_onnx_int(step, "blocksize", 1));
  bool columns_first = strcmp(bd_onnx_text(step, "mode", "DCR"), "CRD") == 0;
  const bd_onnx_number dcr[] = {in[0], block, block, out[1], in[2], in[3]};
  const bd_onnx_number crd[] = {in[0], out[1], block, block, in[2], in[3]};
  static const int from_dcr[] = {0, 3, 4, 1, 5, 2}, from_crd[] = {0, 1, 4, 2, 5, 3};
  return columns_first ? rearrange(l, step, crd, from_crd) : rearrange(l, step, dcr, from_dcr);
}

static bd_status lower_space_to_depth(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const bd_onnx_number *in = step->in[0]->dims, *out = step->out[0].dims;
  bd_onnx_number block = bd_onnx_whole(bd_onnx_int(step, "blocksize", 1));
  const bd_onnx_number apart[] = {in[0], in[1], out[2], block, out[3], block};
  static const int order[] = {0, 3, 5, 1, 2, 4};
  return rearrange(l, step, apart, order);
}

// A channel's slope below 0: x above, slope * x below.
static bd_status lower_prelu(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const bd_onnx_fact *x = step->in[0], *slope = step->in[1];
  int ranks[] = {x->rank, slope->rank};
  bd_onnx_part parts[2], out;
  bd_id above;
  BD_TRY(bd_onnx_operand(l, step, 0, &parts[0]));
  BD_TRY(bd_onnx_operand(l, step, 1, &parts[1]));
  // A list of slopes before version 7 is one per channel, dimension 1.
  if (slope->rank == 1 && step->rule->since < 7 && x->rank >= 2) {
    for (int d = 1; d < x->rank; d++)
      parts[1].first[d] = parts[1].first[1];
    ranks[1] = x->rank - 1;
  }
  BD_TRY(bd_onnx_emit1(l, BD_OP_RELU, parts[0].id, &above));
  BD_TRY(bd_onnx_emit2(l, BD_OP_SUB, parts[0].id, above, &parts[0].id));
  BD_TRY(bd_onnx_align(l, step, 2, ranks, parts, x->rank, &out));
  BD_TRY(bd_onnx_emit2(l, BD_OP_MUL, parts[0].id, parts[1].id, &out.id));
  BD_TRY(bd_onnx_regroup(l, step, x->rank, x->dims, &out));
  bd_type type = *bd_onnx_type(l, above);
  BD_TRY(bd_onnx_emit_reshape(l, out.id, type.rank, type.dims, &out.id));
  BD_TRY(bd_onnx_indices(l, step, 0, &parts[0]));
  BD_TRY(bd_onnx_emit2(l, BD_OP_ADD, above, out.id, &parts[0].id));
  bd_onnx_made(l, step, 0, parts[0]);
  return BD_OK;
}

static const bd_onnx_lower_rule rules[] = {
    {"DepthToSpace", lower_depth_to_space, BD_OP_PERMUTE},
    {"PRelu", lower_prelu, BD_OP_RELU},
    {"Pad", lower_pad, BD_OP_PAD},
    {"SpaceToDepth", lower_space_to_depth, BD_OP_PERMUTE},
    {"Tile", lower_tile, BD_OP_BROADCAST},
};
const bd_onnx_lower_rules bd_onnx_lower_repeats = {sizeof rules / sizeof *rules, rules};
