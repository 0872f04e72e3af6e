// Addresses, loads and stores.
#include "codegen/kernel/gen.h"
#include "ir/pitch.h"
#include <assert.h>

LLVMValueRef bd_gen_buffer(bd_gen *g, int slot) {
  LLVMTypeRef pointer = LLVMPointerTypeInContext(g->llvm, 0);
  LLVMValueRef at = bd_gen_long(g, slot);
  LLVMValueRef address = LLVMBuildGEP2(g->b, pointer, g->buffers, &at, 1, "");
  return LLVMBuildLoad2(g->b, pointer, address, "");
}

static LLVMValueRef buffer_of(bd_gen *g, bd_id value, bool *out_accumulate) {
  const bd_kernel *k = g->kernel;
  int slot = -1;
  *out_accumulate = false;
  for (int i = 0; i < k->in_count && slot < 0; i++)
    if (k->in[i] == value) slot = i;
  for (int i = 0; i < k->out_count && slot < 0; i++)
    if (k->out[i] == value) {
      slot = k->in_count + i;
      *out_accumulate = k->accumulate[i];
    }
  assert(slot >= 0);
  return bd_gen_buffer(g, slot);
}

// Where `aligned` bytes are known, and an address moves by a multiple of so many elements.
static int aligned_after(int aligned, bd_dtype dtype, int64_t elements) {
  while (elements * bd_dtype_bytes(dtype) % aligned)
    aligned /= 2;
  return aligned;
}

static LLVMValueRef offset_pointer(bd_gen *g, bd_dtype dtype, LLVMValueRef base,
                                   LLVMValueRef elements) {
  return LLVMBuildGEP2(g->b, bd_gen_dtype(g, dtype), base, &elements, 1, "");
}

bd_access bd_gen_access(bd_gen *g, bd_id id, const int8_t *loop_of_dim) {
  const bd_module *module = g->kernel->module;
  const bd_value *value = &g->kernel->function->values[id];
  bd_type local = bd_value_local_type(module, value);
  bd_access access = {.dtype = local.dtype, .aligned = BD_GEN_ALIGNED};
  access.base = access.valid = buffer_of(g, id, &access.accumulate);
  int64_t strides[BD_MAX_RANK];
  bd_value_strides(module, g->kernel->function, id, strides);
  for (int d = local.rank - 1; d >= 0; d--) {
    int loop = loop_of_dim[d];
    int64_t stride = strides[d];
    if (loop >= 0) {
      access.stride[loop] += stride;
      // A dimension that is whole under a split loop is addressed by the logical index.
      if (g->loop[loop].split && bd_sharding_parts(&module->mesh, &value->sharding, d) == 1) {
        access.base =
            offset_pointer(g, access.dtype, access.base,
                           LLVMBuildNSWMul(g->b, g->loop[loop].start, bd_gen_long(g, stride), ""));
        access.aligned = aligned_after(access.aligned, access.dtype, stride);
      }
    }
  }
  return access;
}

bd_access bd_gen_in(bd_gen *g, int operand) {
  return bd_gen_access(g, g->op->in[operand], g->map.in[operand]);
}

bd_access bd_gen_out(bd_gen *g, int result) {
  return bd_gen_access(g, g->op->out[result], g->map.out[result]);
}

bd_access bd_gen_shifted(bd_gen *g, const bd_access *access, int64_t elements) {
  bd_access shifted = *access;
  shifted.base = offset_pointer(g, access->dtype, access->base, bd_gen_long(g, elements));
  shifted.aligned = aligned_after(access->aligned, access->dtype, elements);
  return shifted;
}

static int64_t lane_stride(const bd_gen *g, const bd_access *access) {
  return g->lane_loop >= 0 ? access->stride[g->lane_loop] : 0;
}

// Of lane 0.
static LLVMValueRef pointer_of(bd_gen *g, const bd_access *access) {
  LLVMValueRef offset = bd_gen_long(g, 0);
  for (int i = 0; i < g->loops; i++) {
    if (!access->stride[i]) continue;
    assert(g->index[i]);
    LLVMValueRef part = LLVMBuildNSWMul(g->b, g->index[i], bd_gen_long(g, access->stride[i]), "");
    offset = LLVMBuildNSWAdd(g->b, offset, part, "");
  }
  return offset_pointer(g, access->dtype, access->base, offset);
}

static LLVMValueRef lane_pointers(bd_gen *g, const bd_access *access) {
  LLVMValueRef steps[BD_GEN_LANES];
  for (int i = 0; i < g->lanes; i++)
    steps[i] = bd_gen_long(g, i * lane_stride(g, access));
  return offset_pointer(g, access->dtype, pointer_of(g, access),
                        LLVMConstVector(steps, (unsigned)g->lanes));
}

static LLVMValueRef alignment(bd_gen *g, const bd_access *access) {
  unsigned long long bytes = (unsigned long long)bd_dtype_bytes(access->dtype);
  return LLVMConstInt(bd_gen_i32(g), bytes, false);
}

static LLVMValueRef all_lanes(bd_gen *g) {
  return bd_gen_splat(g, LLVMConstInt(LLVMInt1TypeInContext(g->llvm), 1, false));
}

static LLVMValueRef both(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  if (!a || !b) return a ? a : b;
  return LLVMBuildAnd(g->b, a, b, "");
}

static LLVMValueRef load_scalar(bd_gen *g, const bd_access *access, LLVMValueRef pointer) {
  LLVMValueRef value = LLVMBuildLoad2(g->b, bd_gen_dtype(g, access->dtype), pointer, "");
  LLVMSetAlignment(value, (unsigned)bd_dtype_bytes(access->dtype));
  return value;
}

static LLVMValueRef gather(bd_gen *g, const bd_access *access, LLVMValueRef pointers,
                           LLVMValueRef where) {
  LLVMTypeRef type = bd_gen_type(g, bd_gen_dtype(g, access->dtype));
  LLVMTypeRef types[] = {type, LLVMTypeOf(pointers)};
  LLVMValueRef arguments[] = {pointers, alignment(g, access), where ? where : all_lanes(g),
                              LLVMConstNull(type)};
  return bd_gen_intrinsic(g, "llvm.masked.gather", 2, types, 4, arguments);
}

// A pack moves as words of 4 bytes, which vectors of narrower elements are not put together to.
static LLVMTypeRef words_of(bd_gen *g, const bd_access *access) {
  unsigned bytes = (unsigned)(g->lanes * bd_dtype_bytes(access->dtype));
  if (bytes % 4) return LLVMIntTypeInContext(g->llvm, 8 * bytes);
  return LLVMVectorType(bd_gen_i32(g), bytes / 4);
}

static unsigned pack_alignment(const bd_gen *g, const bd_access *access) {
  int64_t bytes = g->lanes * bd_dtype_bytes(access->dtype);
  return bytes < BD_GEN_ALIGNED ? (unsigned)bytes : BD_GEN_ALIGNED;
}

static LLVMValueRef load_pack(bd_gen *g, const bd_access *access, LLVMValueRef pointer) {
  LLVMValueRef words = LLVMBuildLoad2(g->b, words_of(g, access), pointer, "");
  LLVMSetAlignment(words, pack_alignment(g, access));
  return LLVMBuildBitCast(g->b, words, bd_gen_type(g, bd_gen_dtype(g, access->dtype)), "");
}

static void store_pack(bd_gen *g, const bd_access *access, LLVMValueRef value) {
  LLVMValueRef words = LLVMBuildBitCast(g->b, value, words_of(g, access), "");
  LLVMValueRef store = LLVMBuildStore(g->b, words, pointer_of(g, access));
  LLVMSetAlignment(store, pack_alignment(g, access));
}

static LLVMValueRef load_vector(bd_gen *g, const bd_access *access, LLVMValueRef where) {
  LLVMTypeRef type = bd_gen_type(g, bd_gen_dtype(g, access->dtype));
  if (lane_stride(g, access) != 1) return gather(g, access, lane_pointers(g, access), where);
  if (g->cuda && !where) return load_pack(g, access, pointer_of(g, access));
  LLVMValueRef pointer = pointer_of(g, access);
  if (!where) {
    LLVMValueRef value = LLVMBuildLoad2(g->b, type, pointer, "");
    LLVMSetAlignment(value, (unsigned)bd_dtype_bytes(access->dtype));
    return value;
  }
  LLVMTypeRef types[] = {type, LLVMTypeOf(pointer)};
  LLVMValueRef arguments[] = {pointer, alignment(g, access), where, LLVMConstNull(type)};
  return bd_gen_intrinsic(g, "llvm.masked.load", 2, types, 4, arguments);
}

LLVMValueRef bd_gen_fetch(bd_gen *g, const bd_access *access) {
  if (g->lanes > 1 && lane_stride(g, access)) return load_vector(g, access, g->mask);
  return load_scalar(g, access, pointer_of(g, access));
}

LLVMValueRef bd_gen_fetched(bd_gen *g, const bd_access *access, LLVMValueRef value) {
  return bd_gen_splat(g, bd_gen_widen(g, access->dtype, value));
}

LLVMValueRef bd_gen_load(bd_gen *g, const bd_access *access) {
  return bd_gen_fetched(g, access, bd_gen_fetch(g, access));
}

static LLVMValueRef zero_unless(bd_gen *g, LLVMValueRef where, LLVMValueRef value) {
  return where ? LLVMBuildSelect(g->b, where, value, LLVMConstNull(LLVMTypeOf(value)), "") : value;
}

// An element, or a GPU's pack, all of which is there or nothing.
static LLVMValueRef load_whole(bd_gen *g, const bd_access *access, LLVMValueRef pointer,
                               LLVMValueRef where) {
  if (where) pointer = LLVMBuildSelect(g->b, where, pointer, access->valid, "");
  bool packed = g->lanes > 1 && lane_stride(g, access);
  LLVMValueRef value = (packed ? load_pack : load_scalar)(g, access, pointer);
  return bd_gen_fetched(g, access, zero_unless(g, where, value));
}

// A GPU's lanes whose addresses lie anywhere, one by one.
static LLVMValueRef load_each(bd_gen *g, const bd_access *access, LLVMValueRef pointers,
                              LLVMValueRef where) {
  LLVMValueRef values = LLVMGetPoison(bd_gen_type(g, bd_gen_dtype(g, access->dtype)));
  for (int i = 0; i < g->lanes; i++) {
    LLVMValueRef lane = LLVMConstInt(bd_gen_i32(g), (unsigned)i, false);
    LLVMValueRef pointer = LLVMBuildExtractElement(g->b, pointers, lane, "");
    LLVMValueRef there = LLVMBuildExtractElement(g->b, where, lane, "");
    pointer = LLVMBuildSelect(g->b, there, pointer, access->valid, "");
    LLVMValueRef value = zero_unless(g, there, load_scalar(g, access, pointer));
    values = LLVMBuildInsertElement(g->b, values, value, lane, "");
  }
  return values;
}

LLVMValueRef bd_gen_load_where(bd_gen *g, const bd_access *access, LLVMValueRef where) {
  if (g->cuda || g->lanes == 1) return load_whole(g, access, pointer_of(g, access), where);
  return bd_gen_widen(g, access->dtype, load_vector(g, access, both(g, g->mask, where)));
}

LLVMValueRef bd_gen_load_at(bd_gen *g, const bd_access *access, LLVMValueRef offset,
                            LLVMValueRef where) {
  bool apart = LLVMGetTypeKind(LLVMTypeOf(offset)) == LLVMVectorTypeKind;
  if (g->lanes == 1 || (g->cuda && !apart))
    return load_whole(g, access, offset_pointer(g, access->dtype, pointer_of(g, access), offset),
                      where);
  LLVMValueRef pointers =
      offset_pointer(g, access->dtype, lane_pointers(g, access), bd_gen_splat(g, offset));
  LLVMValueRef value = g->cuda ? load_each(g, access, pointers, where)
                               : gather(g, access, pointers, both(g, g->mask, where));
  return bd_gen_widen(g, access->dtype, value);
}

void bd_gen_store_at(bd_gen *g, const bd_access *access, LLVMValueRef offset, LLVMValueRef where,
                     LLVMValueRef value) {
  value = bd_gen_narrow(g, access->dtype, value);
  if (g->lanes == 1) {
    bd_gen_if branch = bd_gen_if_begin(g, where);
    LLVMValueRef pointer = offset_pointer(g, access->dtype, pointer_of(g, access), offset);
    LLVMSetAlignment(LLVMBuildStore(g->b, value, pointer), (unsigned)bd_dtype_bytes(access->dtype));
    bd_gen_if_end(g, &branch);
    return;
  }
  LLVMValueRef pointers =
      offset_pointer(g, access->dtype, lane_pointers(g, access), bd_gen_splat(g, offset));
  LLVMTypeRef types[] = {LLVMTypeOf(value), LLVMTypeOf(pointers)};
  LLVMValueRef arguments[] = {value, pointers, alignment(g, access),
                              both(g, g->mask, bd_gen_splat(g, where))};
  bd_gen_intrinsic(g, "llvm.masked.scatter", 2, types, 4, arguments);
}

static LLVMValueRef accumulated(bd_gen *g, const bd_access *access, LLVMValueRef value) {
  if (!access->accumulate) return value;
  LLVMValueRef before = bd_gen_load(g, access);
  return bd_dtype_is_float(access->dtype) ? LLVMBuildFAdd(g->b, before, value, "")
                                          : LLVMBuildAdd(g->b, before, value, "");
}

static void store_vector(bd_gen *g, const bd_access *access, LLVMValueRef value) {
  if (lane_stride(g, access) == 1 && g->cuda) {
    store_pack(g, access, value);
    return;
  }
  if (lane_stride(g, access) == 1 && !g->mask) {
    LLVMValueRef store = LLVMBuildStore(g->b, value, pointer_of(g, access));
    LLVMSetAlignment(store, (unsigned)bd_dtype_bytes(access->dtype));
    return;
  }
  bool contiguous = lane_stride(g, access) == 1;
  LLVMValueRef pointer = contiguous ? pointer_of(g, access) : lane_pointers(g, access);
  LLVMTypeRef types[] = {LLVMTypeOf(value), LLVMTypeOf(pointer)};
  LLVMValueRef arguments[] = {value, pointer, alignment(g, access),
                              g->mask ? g->mask : all_lanes(g)};
  const char *name = contiguous ? "llvm.masked.store" : "llvm.masked.scatter";
  bd_gen_intrinsic(g, name, 2, types, 4, arguments);
}

// Whether this thread writes a number of the whole row.
static LLVMValueRef writes_row(bd_gen *g) {
  LLVMValueRef first = LLVMBuildICmp(g->b, LLVMIntEQ, g->lane, bd_gen_long(g, 0), "");
  return g->repeats ? LLVMBuildAnd(g->b, first, LLVMBuildNot(g->b, g->repeats, ""), "") : first;
}

void bd_gen_store(bd_gen *g, const bd_access *access, LLVMValueRef value) {
  bool one_thread = g->cuda && g->lane_loop < 0;
  bd_gen_if branch;
  if (one_thread) branch = bd_gen_if_begin(g, writes_row(g));
  value = bd_gen_narrow(g, access->dtype, accumulated(g, access, value));
  if (g->lanes > 1) {
    store_vector(g, access, value);
  } else {
    LLVMValueRef store = LLVMBuildStore(g->b, value, pointer_of(g, access));
    LLVMSetAlignment(store, (unsigned)bd_dtype_bytes(access->dtype));
  }
  if (one_thread) bd_gen_if_end(g, &branch);
}
