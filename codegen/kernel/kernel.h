// One kernel: a step of an spmd function (ir/fuse.h) as an LLVM function, the same generator for
// the host's vector unit and for NVPTX.
#ifndef BD_CODEGEN_KERNEL_KERNEL_H
#define BD_CODEGEN_KERNEL_KERNEL_H
#include "ir/fuse.h"
#include "ir/index.h"

// Host ABI of kernel number N (symbols are numbered, never named after anything in a model file):
//
//   void bdk_N(char *const *buffers, const int64_t *range, const bd_rt_random *random,
//              const float *scalars, int64_t chunk);
//   int64_t bdk_N_chunks(const int64_t *range);
//
// `buffers`: `in` then `out` in the order below. `range`: for each loop of the step's index map (a
// fused run: the loops of its result shape; else the map of bd_op_infer) two numbers: the first
// logical index that this rank holds, and how many valid ones. Strides are compile-time constants:
// row-major over padded local extents. Chunks split the outermost rows in fixed pieces, independent
// of the number of threads; kernels that reduce over rows are one chunk per fixed column block,
// rows ascending.
//
// GPU ABI: PTX entry bdk_N with three parameters by value:
//
//   bdk_N(char *buffers[buffer_count], int64_t range[range_count],
//         struct { uint64_t seed; struct { uint64_t step; int64_t first_sample; } *moving;
//                  int64_t unused; int32_t call, keeps_all; } random)
//
// (what cuLaunchKernel copies from the host arrays; `moving` lies on the device, so that a graph of
// launches stays the same from step to step); no bdk_N_chunks. A launch is a one-dimensional
// grid of any number of blocks of exactly `threads` threads (bd_kernel_launch): kernels stride over
// their work, so every grid gives the same bits. Shared memory is static. Attention and its
// gradient are generated for GPUs only. A step may be several kernels, numbered one after another
// and launched in that order with the same arguments; where `scratch` is set, one more buffer
// follows `out`: bd_memory_scratch_bytes of the op, for the step's kernels alone. A normalization
// on a GPU may take another step along (codegen/fused_norm.h): a run of pointwise ops that makes
// its first operand, of its gradient what comes down to it, or one that reads its first result,
// which is in memory only where `keeps` is set. The sum of a loss may take along the log-sum-exp
// that it reads and the gradient (codegen/fused_loss.h), in two parts: `with_gradient`.
typedef struct bd_kernel {
  int number;
  const bd_module *module;
  const bd_function *function;
  int first_op, op_count;
  int run_op, run_count; // of the run that is taken along; 0: none
  bool keeps;            // what the run reads of the normalization is also written
  int in_count, out_count;
  bd_id *in, *out;  // values read from and written to memory, each once, in order of first use
  bool *accumulate; // per `out`: add to what is there
  int parts;        // kernels `number`, `number` + 1, ..: 1 but for some ops on GPUs
  bool scratch;
  bool with_gradient; // of `xent`: the gradient takes the place of the logits, rows' losses that of
                      // their log-sum-exps; one more buffer follows `out`, the loss's gradient
} bd_kernel;

// Describes step `step`; false when its op runs as a call of the runtime on that target.
bool bd_kernel_of_step(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                       const bd_fusion *fusion, int step, bool cuda, int number,
                       bd_kernel *out_kernel);
// Lets the kernel of a normalization take along step `run`. `keeps`: if the run reads what it
// makes, others do, too.
void bd_kernel_add_run(bd_ctx *ctx, const bd_fusion *fusion, int run, bool keeps,
                       bd_kernel *kernel);

// Lets the kernel of an `xent` of logits that are whole make their log-sum-exps, and their
// gradient.
void bd_kernel_add_gradient(bd_ctx *ctx, bd_kernel *kernel);

typedef struct bd_kernel_set bd_kernel_set; // an LLVM module in the making; destroy it
BD_NODISCARD bd_status bd_kernel_set_create(bd_ctx *ctx, bool cuda, const char *arch,
                                            bd_kernel_set **out_set);
void bd_kernel_set_destroy(bd_kernel_set *set);
BD_NODISCARD bd_status bd_kernel_set_add(bd_ctx *ctx, bd_kernel_set *set, const bd_kernel *kernel);
// How kernel `number` of a set for GPUs is launched.
typedef struct bd_kernel_launch {
  int threads; // of a block, a multiple of 32
  int buffer_count, range_count;
} bd_kernel_launch;
bd_kernel_launch bd_kernel_set_launch(const bd_kernel_set *set, int number);
// Verifies, optimizes, and writes `stem.ll` and `stem.s` (x86-64-v3), or `stem.ptx` (for `arch`).
BD_NODISCARD bd_status bd_kernel_set_write(bd_ctx *ctx, bd_kernel_set *set, const char *stem);
#endif
