// unfold and fold. Along each windowed dimension the place of an element is linear in the window's
// index and the element's own; what lies outside is not loaded.
#include "ir/windows.h"
#include "codegen/kernel/gen.h"

typedef struct windows {
  bd_windows shape;
  bd_access in, out, number;      // number: keeps loops from being merged whose indices are tested
  int own[BD_MAX_SPATIAL];        // loops over a window's elements
  int over[BD_MAX_SPATIAL];       // unfold: loops over windows; fold: over what they lie over
  int64_t extent[BD_MAX_SPATIAL]; // of what `over` and `own` lead to
  int64_t apart[BD_MAX_SPATIAL];  // elements between its indices
  LLVMValueRef fill;              // unfold: a scalar, or NULL for zero
  LLVMValueRef sum;               // fold
} windows;

static const bd_type *type_of(const bd_gen *g, bd_id id) {
  return &g->kernel->function->values[id].type;
}

// Loops, and how `unfolded` ([lead.., window, windows..]) is addressed by those of the windows.
static windows begin(bd_gen *g) {
  windows w = {.shape = bd_windows_of(g->op, 0, NULL)};
  int lead = type_of(g, g->op->out[0])->rank - w.shape.count - (g->op->kind == BD_OP_UNFOLD);
  int first = lead + (g->op->kind == BD_OP_UNFOLD);
  w.in = bd_gen_in(g, 0);
  w.out = bd_gen_out(g, 0);
  for (int d = 0; d < w.shape.count; d++) {
    w.own[d] = bd_gen_own_loop(g, w.shape.kernel[d]);
    w.over[d] = g->map.out[0][first + d];
  }
  return w;
}

// Strides of the loops over a window's elements where these are one dimension, `inner` elements
// apart.
static void lay_out_elements(windows *w, bd_access *access, int64_t inner) {
  for (int d = w->shape.count - 1; d >= 0; d--) {
    access->stride[w->own[d]] = inner;
    inner *= w->shape.kernel[d];
  }
}

static LLVMValueRef in_lanes(bd_gen *g, int loop, int64_t factor) {
  LLVMValueRef index = bd_gen_logical(g, loop);
  return LLVMBuildMul(g->b, index, bd_gen_int_like(index, factor), "");
}

static LLVMValueRef also(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  return a ? LLVMBuildAnd(g->b, a, b, "") : b;
}

static LLVMValueRef below(bd_gen *g, LLVMValueRef at, int64_t extent) {
  return LLVMBuildICmp(g->b, LLVMIntULT, at, bd_gen_int_like(at, extent), "");
}

static void unfold_point(bd_gen *g, void *user) {
  windows *w = user;
  LLVMValueRef where = NULL;
  for (int d = 0; d < w->shape.count; d++) {
    LLVMValueRef at = LLVMBuildAdd(g->b, in_lanes(g, w->over[d], w->shape.stride[d]),
                                   in_lanes(g, w->own[d], w->shape.dilation[d]), "");
    at = LLVMBuildSub(g->b, at, bd_gen_int_like(at, w->shape.before[d]), "");
    where = also(g, where, below(g, at, w->extent[d]));
  }
  LLVMValueRef value = bd_gen_load_where(g, &w->in, where);
  if (w->fill) value = LLVMBuildSelect(g->b, where, value, bd_gen_splat(g, w->fill), "");
  bd_gen_store(g, &w->out, value);
}

// Loops of which none may take in another: the numbers grow inwards.
static void keep_apart(windows *w, int count, const int *loops) {
  for (int i = 0; i < count; i++)
    w->number.stride[loops[i]] = i + 1;
}

static void run_points(bd_gen *g, windows *w, bool unfold, int64_t work, bd_gen_body body) {
  int rank = type_of(g, g->op->out[0])->rank, count = w->shape.count;
  bd_access *accesses[] = {&w->in, &w->out, &w->number};
  bd_gen_points points = {
      .access_count = 3, .accesses = accesses, .work = work, .body = body, .user = w};
  for (int d = 0; d < rank - count - unfold; d++)
    points.order[points.loops++] = g->map.out[0][d];
  int lead = points.loops;
  for (int d = 0; unfold && d < count; d++)
    points.order[points.loops++] = w->own[d];
  for (int d = 0; d < count; d++)
    points.order[points.loops++] = w->over[d];
  keep_apart(w, points.loops - lead, points.order + lead);
  bd_gen_elementwise(g, &points);
}

bd_status bd_gen_unfold(bd_gen *g) {
  windows w = begin(g);
  const bd_type *x = type_of(g, g->op->in[0]);
  int64_t under = 1, over = 1, shift = 0;
  for (int d = w.shape.count - 1; d >= 0; d--) {
    w.extent[d] = x->dims[x->rank - w.shape.count + d];
    w.in.stride[w.over[d]] = w.shape.stride[d] * under;
    w.in.stride[w.own[d]] = w.shape.dilation[d] * under;
    shift -= w.shape.before[d] * under;
    under *= w.extent[d];
    over *= g->loop[w.over[d]].extent;
  }
  w.in = bd_gen_shifted(g, &w.in, shift);
  lay_out_elements(&w, &w.out, over);
  w.out.stride[g->map.out[0][x->rank - w.shape.count]] = 0; // the window as one dimension
  const bd_attr *value = bd_op_find_attr(g->op, "value");
  if (value) w.fill = bd_gen_constant(g, value, 0, w.out.dtype);
  run_points(g, &w, true, 1, unfold_point);
  return BD_OK;
}

// Adds the element of the window that lies so far before this place, where there is one.
static void add_element(bd_gen *g, void *user) {
  windows *w = user;
  LLVMValueRef where = NULL, offset = NULL;
  for (int d = 0; d < w->shape.count; d++) {
    LLVMValueRef at = LLVMBuildSub(g->b, in_lanes(g, w->over[d], 1),
                                   in_lanes(g, w->own[d], w->shape.dilation[d]), "");
    at = LLVMBuildAdd(g->b, at, bd_gen_int_like(at, w->shape.before[d]), "");
    if (w->shape.stride[d] > 1) {
      LLVMValueRef stride = bd_gen_int_like(at, w->shape.stride[d]);
      LLVMValueRef window = LLVMBuildSDiv(g->b, at, stride, "");
      LLVMValueRef back = LLVMBuildMul(g->b, window, stride, "");
      where = also(g, where, LLVMBuildICmp(g->b, LLVMIntEQ, back, at, ""));
      at = window;
      LLVMValueRef part = LLVMBuildMul(g->b, at, bd_gen_int_like(at, w->apart[d]), "");
      offset = offset ? LLVMBuildAdd(g->b, offset, part, "") : part;
    }
    where = also(g, where, below(g, at, w->extent[d]));
  }
  LLVMValueRef value =
      offset ? bd_gen_load_at(g, &w->in, offset, where) : bd_gen_load_where(g, &w->in, where);
  value = bd_gen_cast(g, w->in.dtype, BD_F64, value);
  LLVMValueRef before = LLVMBuildLoad2(g->b, LLVMTypeOf(value), w->sum, "");
  LLVMBuildStore(g->b, LLVMBuildFAdd(g->b, before, value, ""), w->sum);
}

static void fold_point(bd_gen *g, void *user) {
  windows *w = user;
  LLVMTypeRef type = bd_gen_type(g, bd_gen_f64(g));
  w->sum = bd_gen_variable(g, type);
  LLVMBuildStore(g->b, LLVMConstNull(type), w->sum);
  g->rolled = g->cuda;
  bd_gen_serial(g, w->shape.count, w->own, add_element, w);
  g->rolled = false;
  LLVMValueRef sum = LLVMBuildLoad2(g->b, type, w->sum, "");
  bd_gen_store(g, &w->out, bd_gen_cast(g, BD_F64, w->out.dtype, sum));
}

// Windows one apart are linear in the place; others are found by division.
bd_status bd_gen_fold(bd_gen *g) {
  windows w = begin(g);
  const bd_type *in = type_of(g, g->op->in[0]);
  int64_t inner = 1, shift = 0;
  for (int d = w.shape.count - 1; d >= 0; d--) {
    w.extent[d] = in->dims[in->rank - w.shape.count + d];
    w.apart[d] = inner;
    inner *= w.extent[d];
  }
  lay_out_elements(&w, &w.in, inner);
  for (int d = 0; d < w.shape.count; d++) {
    if (w.shape.stride[d] > 1) continue;
    w.in.stride[w.over[d]] = w.apart[d];
    w.in.stride[w.own[d]] -= w.shape.dilation[d] * w.apart[d];
    shift += w.shape.before[d] * w.apart[d];
  }
  w.in = bd_gen_shifted(g, &w.in, shift);
  run_points(g, &w, false, bd_windows_elements(&w.shape), fold_point);
  return BD_OK;
}
