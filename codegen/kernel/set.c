// The LLVM module of a program's kernels, and its way to assembly.
#include "codegen/kernel/attention.h"
#include "codegen/kernel/columns.h"
#include "codegen/kernel/loss.h"
#include "ir/base/file.h"
#include "ir/columns.h"
#include <assert.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <string.h>

static const bd_gen_emitter emitters[BD_OP_KIND_COUNT] = {
    [BD_OP_REDUCE_SUM] = bd_gen_reduce_sum,
    [BD_OP_BROADCAST] = bd_gen_move,
    [BD_OP_PERMUTE] = bd_gen_move,
    [BD_OP_RESHAPE] = bd_gen_reshape,
    [BD_OP_SLICE] = bd_gen_slice,
    [BD_OP_PAD] = bd_gen_pad,
    [BD_OP_CONCAT] = bd_gen_concat,
    [BD_OP_ALTERNATE] = bd_gen_slice,
    [BD_OP_INTERLEAVE] = bd_gen_concat,
    [BD_OP_CONTRACT] = bd_gen_reduce,
    [BD_OP_REDUCE_MAX] = bd_gen_reduce,
    [BD_OP_REDUCE_MIN] = bd_gen_reduce,
    [BD_OP_REDUCE_PROD] = bd_gen_reduce,
    [BD_OP_CUMSUM] = bd_gen_cumsum,
    [BD_OP_TOPK] = bd_gen_topk,
    [BD_OP_UNFOLD] = bd_gen_unfold,
    [BD_OP_FOLD] = bd_gen_fold,
    [BD_OP_GATHER] = bd_gen_gather,
    [BD_OP_GATHER_DX] = bd_gen_gather_dx,
    [BD_OP_SCATTER] = bd_gen_scatter,
    [BD_OP_ROUTE] = bd_gen_route,
    [BD_OP_SEARCH] = bd_gen_search,
    [BD_OP_ROW_ITEMS] = bd_gen_row_items,
    [BD_OP_LAYERNORM] = bd_gen_layernorm,
    [BD_OP_LAYERNORM_DX] = bd_gen_layernorm_dx,
    [BD_OP_LAYERNORM_DW] = bd_gen_layernorm_dw,
    [BD_OP_RMSNORM] = bd_gen_rmsnorm,
    [BD_OP_RMSNORM_DX] = bd_gen_rmsnorm_dx,
    [BD_OP_RMSNORM_DW] = bd_gen_rmsnorm_dw,
    [BD_OP_EMBED] = bd_gen_embed,
    [BD_OP_ROPE] = bd_gen_rope,
    [BD_OP_LSE] = bd_gen_lse,
    [BD_OP_XENT] = bd_gen_xent,
    [BD_OP_XENT_GRAD] = bd_gen_xent_grad,
    [BD_OP_ATTENTION] = bd_gen_attention,
    [BD_OP_ATTENTION_GRAD] = bd_gen_attention_grad,
    [BD_OP_SINK_ATTENTION] = bd_gen_attention,
    [BD_OP_ROW_PRODUCTS] = bd_gen_row_products,
    [BD_OP_SINKS_GRAD] = bd_gen_sinks_grad,
    [BD_OP_RELATIVE_ATTENTION] = bd_gen_attention,
    [BD_OP_RELATIVE_ATTENTION_GRAD] = bd_gen_attention_grad,
};

static bd_status external(bd_ctx *ctx, const char *what, char *message) {
  bd_status status =
      bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "%s: %s", what, message ? message : "no reason given");
  if (message) LLVMDisposeMessage(message);
  return status;
}

static bd_status find_target(bd_ctx *ctx, const char *triple, LLVMTargetRef *out_target) {
  char *message = NULL;
  if (LLVMGetTargetFromTriple(triple, out_target, &message))
    return external(ctx, "LLVM has no such target", message);
  return BD_OK;
}

static bd_status open_machine(bd_ctx *ctx, bd_kernel_set *set) {
  const char *triple = set->cuda ? "nvptx64-nvidia-cuda" : "x86_64-pc-linux-gnu";
  if (set->cuda) {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  } else {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  }
  LLVMTargetRef target;
  BD_TRY(find_target(ctx, triple, &target));
  set->machine = LLVMCreateTargetMachine(target, triple, set->cuda ? set->arch : "x86-64-v3",
                                         set->cuda ? "+ptx78" : "", LLVMCodeGenLevelAggressive,
                                         LLVMRelocPIC, LLVMCodeModelDefault);
  if (!set->machine) return external(ctx, "LLVM cannot open the target", NULL);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(set->machine);
  LLVMSetModuleDataLayout(set->module, layout);
  LLVMDisposeTargetData(layout);
  LLVMSetTarget(set->module, triple);
  return BD_OK;
}

bd_status bd_kernel_set_create(bd_ctx *ctx, bool cuda, const char *arch, bd_kernel_set **out_set) {
  bd_kernel_set *set = BD_NEW(ctx->arena, bd_kernel_set);
  set->cuda = cuda;
  set->arch = arch && *arch ? arch : "sm_80";
  set->llvm = LLVMContextCreate();
  set->module = LLVMModuleCreateWithNameInContext("kernels", set->llvm);
  set->builder = LLVMCreateBuilderInContext(set->llvm);
  bd_status status = open_machine(ctx, set);
  if (status != BD_OK) {
    bd_kernel_set_destroy(set);
    return status;
  }
  *out_set = set;
  return BD_OK;
}

void bd_kernel_set_destroy(bd_kernel_set *set) {
  if (!set) return;
  if (set->machine) LLVMDisposeTargetMachine(set->machine);
  LLVMDisposeBuilder(set->builder);
  LLVMDisposeModule(set->module);
  LLVMContextDispose(set->llvm);
}

static LLVMValueRef special(bd_gen *g, const char *name) {
  LLVMValueRef value = bd_gen_intrinsic(g, name, 0, NULL, 0, NULL);
  return LLVMBuildZExt(g->b, value, bd_gen_i64(g), "");
}

// This thread's lane, its warp's number in the grid, and the number of warps.
static void place_in_grid(bd_gen *g) {
  g->lane_count = BD_GEN_LANES;
  LLVMValueRef size = bd_gen_long(g, g->lane_count);
  LLVMValueRef per_block = bd_gen_long(g, g->threads / BD_GEN_LANES);
  g->thread = special(g, "llvm.nvvm.read.ptx.sreg.tid.x");
  g->block = special(g, "llvm.nvvm.read.ptx.sreg.ctaid.x");
  g->blocks = special(g, "llvm.nvvm.read.ptx.sreg.nctaid.x");
  g->lane = LLVMBuildURem(g->b, g->thread, size, "");
  g->chunk = LLVMBuildNSWAdd(g->b, LLVMBuildNSWMul(g->b, g->block, per_block, ""),
                             LLVMBuildUDiv(g->b, g->thread, size, ""), "");
  g->warps = LLVMBuildNSWMul(g->b, g->blocks, per_block, "");
}

static LLVMTypeRef random_type(bd_gen *g) { // see codegen/kernel/kernel.h
  LLVMTypeRef i64 = bd_gen_i64(g), i32 = bd_gen_i32(g),
              types[] = {i64, LLVMPointerTypeInContext(g->llvm, 0), i64, i32, i32};
  return LLVMStructTypeInContext(g->llvm, types, 5, false);
}

static void pass_by_value(bd_gen *g, unsigned parameter, LLVMTypeRef type) {
  unsigned by_value = LLVMGetEnumAttributeKindForName("byval", 5);
  unsigned align = LLVMGetEnumAttributeKindForName("align", 5);
  LLVMAddAttributeAtIndex(g->function, parameter + 1,
                          LLVMCreateTypeAttribute(g->llvm, by_value, type));
  LLVMAddAttributeAtIndex(g->function, parameter + 1, LLVMCreateEnumAttribute(g->llvm, align, 8));
}

static void annotate(bd_gen *g, const char *name, int value) {
  LLVMMetadataRef operands[] = {
      LLVMValueAsMetadata(g->function), LLVMMDStringInContext2(g->llvm, name, strlen(name)),
      LLVMValueAsMetadata(LLVMConstInt(bd_gen_i32(g), (unsigned)value, false))};
  LLVMMetadataRef node = LLVMMDNodeInContext2(g->llvm, operands, 3);
  LLVMAddNamedMetadataOperand(g->set->module, "nvvm.annotations",
                              LLVMMetadataAsValue(g->llvm, node));
}

static void note_launch(bd_gen *g, bd_kernel_launch launch) {
  bd_kernel_set *set = g->set;
  int number = g->number;
  if (number >= set->launch_capacity) {
    int capacity = 2 * number + 16;
    set->launches = bd_arena_grow(g->ctx->arena, set->launches, (size_t)set->launch_capacity,
                                  (size_t)capacity, sizeof *set->launches);
    set->launch_capacity = capacity;
  }
  set->launches[number] = launch;
}

static bool divides(const bd_gen *g) {
  return bd_gen_has_kind(g, g->kernel->first_op, g->kernel->op_count, BD_OP_DIV);
}

// Blocks that a multiprocessor is to have room for, or 0. Left to itself ptxas takes few registers
// for the sake of more blocks, and puts off what a thread is to read ahead.
static int least_blocks(const bd_gen *g) {
  bd_op_kind kind = g->op->kind;
  bool point = bd_op_get_info(kind)->traits & BD_POINTWISE;
  if (point && divides(g)) return BD_GEN_AHEAD_BLOCKS - 1; // a call, with registers of its own
  if (point || kind == BD_OP_LSE) return BD_GEN_AHEAD_BLOCKS;
  if (kind == BD_OP_XENT_GRAD)
    return BD_GEN_AHEAD_BLOCKS - 1; // reads as far ahead, and looks for the target
  if (kind == BD_OP_XENT && g->kernel->with_gradient && g->part == 0)
    return BD_LOSS_ROW_THREADS / g->threads;
  if (bd_sums_columns(g->kernel->function, g->op))
    return (bd_gen_has_wide_columns(g) ? BD_GEN_WIDE_LANES : BD_GEN_COLUMN_LANES) / g->threads;
  bool norm = kind == BD_OP_LAYERNORM || kind == BD_OP_LAYERNORM_DX || kind == BD_OP_RMSNORM ||
              kind == BD_OP_RMSNORM_DX;
  return norm ? BD_GEN_ROOMY_BLOCKS : 0;
}

static void open_gpu_parameters(bd_gen *g) {
  const bd_kernel *k = g->kernel;
  bd_kernel_launch launch = {.threads = g->threads,
                             .buffer_count =
                                 k->in_count + k->out_count + k->scratch + k->with_gradient,
                             .range_count = 2 * (g->map.loops ? g->map.loops : 1)};
  LLVMTypeRef pointer = LLVMPointerTypeInContext(g->llvm, 0);
  pass_by_value(g, 0, LLVMArrayType2(pointer, (uint64_t)launch.buffer_count));
  pass_by_value(g, 1, LLVMArrayType2(bd_gen_i64(g), (uint64_t)launch.range_count));
  pass_by_value(g, 2, random_type(g));
  LLVMSetFunctionCallConv(g->function, LLVMPTXKernelCallConv);
  annotate(g, "kernel", 1);
  annotate(g, "reqntidx", launch.threads);
  g->room = least_blocks(g);
  note_launch(g, launch);
}

static void open_function(bd_gen *g) {
  LLVMTypeRef pointer = LLVMPointerTypeInContext(g->llvm, 0);
  LLVMTypeRef types[] = {pointer, pointer, pointer, pointer, bd_gen_i64(g)};
  LLVMTypeRef type =
      LLVMFunctionType(LLVMVoidTypeInContext(g->llvm), types, g->cuda ? 3 : 5, false);
  const char *name = bd_intern_f(g->ctx, "bdk_%d", g->number);
  g->function = LLVMAddFunction(g->set->module, name, type);
  if (g->cuda) open_gpu_parameters(g);
  g->buffers = LLVMGetParam(g->function, 0);
  g->range = LLVMGetParam(g->function, 1);
  g->random = LLVMGetParam(g->function, 2);
  LLVMPositionBuilderAtEnd(g->b, LLVMAppendBasicBlockInContext(g->llvm, g->function, "entry"));
  if (g->cuda)
    place_in_grid(g);
  else
    g->chunk = LLVMGetParam(g->function, 4);
}

static int64_t padded_extent(const bd_gen *g, int loop) {
  const bd_module *module = g->kernel->module;
  int64_t extent = bd_extent(g->map.loop[loop].extent, module->micro_batch);
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < (side ? g->op->out_count : g->op->in_count); i++) {
      const bd_value *value = &g->kernel->function->values[side ? g->op->out[i] : g->op->in[i]];
      bd_type local = bd_value_local_type(module, value);
      for (int d = 0; d < local.rank; d++) {
        int8_t at = side ? g->map.out[i][d] : g->map.in[i][d];
        if (at == loop && local.dims[d] < extent) extent = local.dims[d];
      }
    }
  return extent;
}

// Of a GPU's block: columns that are summed over long loops at once have more of them each, and so
// has the one block that adds up losses, as long as a thread has registers for what all its warps
// hold.
static int threads_of(const bd_gen *g) {
  const bd_function *function = g->kernel->function;
  if (g->cuda && g->op->kind == BD_OP_XENT) return bd_loss_threads(g);
  if (g->cuda && bd_op_attends(g->op->kind)) return bd_attention_threads(g);
  if (!g->cuda || g->kernel->parts > 1 || !bd_sums_columns(function, g->op)) return BD_GEN_THREADS;
  int most = bd_gen_has_wide_columns(g) ? BD_GEN_WIDE_LANES : BD_GEN_COLUMN_LANES;
  int along = bd_gen_column_threads(g);
  if (most == BD_GEN_WIDE_LANES && along == BD_COLUMN_LINE) return BD_GEN_THREADS;
  int64_t longest = 0;
  int out_rank = function->values[g->op->out[0]].type.rank;
  for (int d = 0; d < function->values[g->op->in[0]].type.rank; d++) {
    int8_t loop = g->map.in[0][d];
    int64_t extent = memchr(g->map.out[0], loop, (size_t)out_rank) ? 0 : padded_extent(g, loop);
    if (extent > longest) longest = extent;
  }
  int threads = BD_GEN_THREADS;
  while (threads < most && threads / along < longest)
    threads *= 2;
  return threads;
}

static LLVMValueRef range_value(bd_gen *g, int64_t entry) {
  LLVMValueRef at = bd_gen_long(g, entry);
  LLVMValueRef address = LLVMBuildGEP2(g->b, bd_gen_i64(g), g->range, &at, 1, "");
  return LLVMBuildLoad2(g->b, bd_gen_i64(g), address, "");
}

// A loop is split when some operand or result is along it; the others run over their whole extent.
static void open_loops(bd_gen *g) {
  g->loops = g->map.loops;
  for (int i = 0; i < g->loops; i++) {
    bd_gen_loop *loop = &g->loop[i];
    bool split = bd_loop_axes(&g->map, g->kernel->module, g->kernel->function, g->op, i) != 0;
    *loop = (bd_gen_loop){.slot = i, .scale = 1, .split = split, .extent = padded_extent(g, i)};
    loop->start = loop->split ? range_value(g, 2 * i) : bd_gen_long(g, 0);
    loop->count = loop->split ? range_value(g, 2 * i + 1) : bd_gen_long(g, loop->extent);
  }
}

static bd_status add_part(bd_ctx *ctx, bd_kernel_set *set, const bd_kernel *kernel, int part) {
  const bd_op *op = &kernel->function->ops[kernel->first_op];
  bool pointwise = bd_op_get_info(op->kind)->traits & BD_POINTWISE;
  bd_gen_emitter emit = pointwise ? bd_gen_pointwise : emitters[op->kind];
  if (!emit)
    return bd_fail(ctx, BD_INTERNAL, op->loc, "no kernel is generated for '%s'",
                   bd_op_get_info(op->kind)->name);
  bd_gen g = {.ctx = ctx,
              .set = set,
              .kernel = kernel,
              .number = kernel->number + part,
              .part = part,
              .op = op,
              .cuda = set->cuda,
              .llvm = set->llvm,
              .b = set->builder,
              .lane_loop = -1,
              .lanes = 1,
              .pack = 1};
  bd_type types[BD_MAX_RESULTS];
  BD_TRY(bd_op_infer(ctx, kernel->function, op, &g.map, types));
  g.threads = threads_of(&g);
  open_function(&g);
  open_loops(&g);
  BD_TRY(emit(&g));
  if (g.room) annotate(&g, "minctasm", g.room);
  LLVMBuildRetVoid(g.b);
  return BD_OK;
}

bd_status bd_kernel_set_add(bd_ctx *ctx, bd_kernel_set *set, const bd_kernel *kernel) {
  for (int part = 0; part < kernel->parts; part++)
    BD_TRY(add_part(ctx, set, kernel, part));
  return BD_OK;
}

bd_kernel_launch bd_kernel_set_launch(const bd_kernel_set *set, int number) {
  assert(set->cuda && number < set->launch_capacity && set->launches[number].threads);
  return set->launches[number];
}

static bd_status optimize(bd_ctx *ctx, bd_kernel_set *set) {
  char *message = NULL;
  if (LLVMVerifyModule(set->module, LLVMReturnStatusAction, &message)) {
    bd_status status =
        bd_fail(ctx, BD_INTERNAL, BD_NOWHERE, "a generated kernel is malformed: %s", message);
    LLVMDisposeMessage(message);
    return status;
  }
  LLVMDisposeMessage(message);
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(set->module, "default<O2>", set->machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (!error) return BD_OK;
  char *words = LLVMGetErrorMessage(error);
  bd_status status =
      bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "LLVM cannot optimize the kernels: %s", words);
  LLVMDisposeErrorMessage(words);
  return status;
}

// LLVM's own writing to files ends the process where a disk is full.
static bd_status write_text(bd_ctx *ctx, bd_kernel_set *set, const char *path) {
  char *text = LLVMPrintModuleToString(set->module);
  bd_status status = bd_file_write_unsynced(ctx, path, text, strlen(text));
  LLVMDisposeMessage(text);
  return status;
}

static bd_status write_assembly(bd_ctx *ctx, bd_kernel_set *set, const char *path) {
  char *message = NULL;
  LLVMMemoryBufferRef text;
  if (LLVMTargetMachineEmitToMemoryBuffer(set->machine, set->module, LLVMAssemblyFile, &message,
                                          &text))
    return external(ctx, "LLVM cannot make the kernels' assembly", message);
  bd_status status =
      bd_file_write_unsynced(ctx, path, LLVMGetBufferStart(text), LLVMGetBufferSize(text));
  LLVMDisposeMemoryBuffer(text);
  return status;
}

bd_status bd_kernel_set_write(bd_ctx *ctx, bd_kernel_set *set, const char *stem) {
  if (!set->cuda) bd_gen_share_bodies(ctx, set); // PTX has no second names for kernels
  BD_TRY(optimize(ctx, set));
  BD_TRY(write_text(ctx, set, bd_intern_f(ctx, "%s.ll", stem)));
  return write_assembly(ctx, set, bd_intern_f(ctx, "%s.%s", stem, set->cuda ? "ptx" : "s"));
}
