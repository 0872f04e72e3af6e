// What compiler and runtime must agree on, and nothing else. Includes nothing of either.
#ifndef BRAID_RT_ABI_H
#define BRAID_RT_ABI_H
#include <stdint.h>

#define BD_RT_VERSION 2
#define BD_RT_MAX_RANK 8
#define BD_RT_MAX_AXES 4
#define BD_RT_ALIGNMENT 256 // of everything in an arena, bytes

// Exit statuses of an emitted program (0: done).
enum {
  BD_RT_EXIT_USAGE = 2,
  BD_RT_EXIT_EXTERNAL = 4, // MPI, the device or an output failed
  BD_RT_EXIT_INTERNAL = 5,
  BD_RT_EXIT_DEAD_RANK = 10, // another rank ended early
  BD_RT_EXIT_NONFINITE = 11, // the loss is not a number
  BD_RT_EXIT_DATA = 12,      // data or weights are missing or unusable
  BD_RT_EXIT_WORLD = 13,     // wrong number of ranks
  BD_RT_EXIT_MACHINE = 14,   // this machine cannot run the code (CPU features, GPU)
  BD_RT_EXIT_STOPPED = 15,   // told to stop, and a checkpoint is written: to be resumed
};

// Same numbers as the compiler's bd_dtype; a test holds them together.
enum {
  BD_RT_F32,
  BD_RT_BF16,
  BD_RT_F16,
  BD_RT_F64,
  BD_RT_I32,
  BD_RT_I64,
  BD_RT_BOOL, // a byte: 0 or 1
  BD_RT_U8,
  BD_RT_I8,
  BD_RT_I16,
  BD_RT_U16,
  BD_RT_U32,
  BD_RT_U64
};

// Formats of factors of products in 8 bits, and what their dimensions are multiples of.
enum { BD_RT_NO_F8, BD_RT_E4M3, BD_RT_E5M2, BD_RT_F8_GRAIN = 16 };

// What goes with a product in the kernel that computes it: see bd_rt_epilogue. The rows of `other`
// in GELU and GELU_GRAD begin in grains of BD_RT_EPILOGUE_GRAIN elements.
enum {
  BD_RT_EPILOGUE_NONE,
  BD_RT_EPILOGUE_BIAS,
  BD_RT_EPILOGUE_GELU,
  BD_RT_EPILOGUE_GELU_GRAD,
  BD_RT_EPILOGUE_ADD,
  BD_RT_EPILOGUE_SUM_A,
  BD_RT_EPILOGUE_SUM_B,
  BD_RT_EPILOGUE_GRAIN = 8
};

enum { BD_RT_SUM, BD_RT_MAX, BD_RT_LSE };

enum { BD_RT_SGD, BD_RT_ADAMW, BD_RT_MOMENTUM, BD_RT_ADAM, BD_RT_ADAFACTOR };

// Segments of an arena, as the compiler's bd_segment numbers them; a test holds them together.
enum { BD_RT_SEGMENTS = 9 };

// How a rank's part of a tensor lies in the whole: per mesh axis the dimension it splits, or -1.
typedef struct bd_rt_layout {
  int32_t dtype, rank;
  int64_t dims[BD_RT_MAX_RANK]; // logical
  int32_t at[BD_RT_MAX_AXES];   // BD_REPLICATED = -1
} bd_rt_layout;

enum { BD_RT_INIT_ZEROS, BD_RT_INIT_ONES, BD_RT_INIT_NORMAL, BD_RT_INIT_UNIFORM };

// One weight that a stage holds.
typedef struct bd_rt_weight {
  const char *stored_name; // safetensors name, any bytes
  // Above 0: as many tensors, whose parts follow one another in the weight. Their names are
  // stored_name, a number in decimal, and stack_rest. The numbers start at stack_first and leave
  // stack_gap out from one to the next.
  int32_t stack;
  int64_t stack_first, stack_gap;
  const char *stack_rest;
  const char *const *stack_names; // written out by the runtime; NULL in the program's tables
  int32_t stored_rank;
  int64_t stored_dims[BD_RT_MAX_RANK];
  int32_t slice_dim; // -1: whole. Slicing comes first, then the transpose, then the reshape
  int64_t slice_start, slice_size;
  int64_t slice_every; // above 0: the slice is of every so many indices alike
  int32_t transpose;
  bd_rt_layout layout;
  int64_t weight_offset;  // bytes in the arena; f32, bf16 or f16, as the layout says
  int32_t gradient_count; // uses on this stage: accumulators, added in this order at step end
  const int64_t *gradient_offsets; // bytes in the arena, local elements of `layout`, cut
  int32_t gradient_dtype;          // BD_RT_F32; of a weight that is `rounded` also BD_RT_BF16
  // 1 + the mesh axis, none of `layout`, that cuts the accumulators along dimension `cut_dim` into
  // equal parts (ZeRO-2); the optimizer's state is then of that part. 0: they lie as the weight.
  int32_t cut_axis, cut_dim;
  const uint32_t
      *gradient_partial; // per use: mesh axes over which the accumulator is a partial sum
  // A weight in bf16 without a master: updates are rounded stochastically (runtime/rounding.h).
  int32_t rounded;
  // Optimizer state, f32: the master of a weight in halves that has one, then the moments, each
  // `state_elements`, or what runtime/factors.h says.
  int64_t state_offset;
  // Of this rank's flat part: the padded local elements, cut over the zero axes that do not split
  // the weight, rounded up; at least that many. Of a weight with `cut_axis`: of its accumulator.
  int64_t state_elements;
  int32_t
      global_index; // in the model: order of norms and of initialization; the same on all stages
  int32_t init;
  float init_scale;
  int32_t decay;
  float average; // above 0: the gradient is what a running average has too much; this share of it
                 // is taken away
  int32_t factor_dim; // Adafactor: the first dimension of the columns, or the rank
  // Another stage that holds it as well, or -1. Gradients of all uses are added in stage order,
  // then in the order of `gradient_offsets`; the runtime finds the holders by `global_index`.
  int32_t tied_stage;
} bd_rt_weight;

// A weight of every layer of a run: the first layer's, and what each further layer adds to it.
typedef struct bd_rt_weight_series {
  bd_rt_weight first;
  // The stored name of layer i: first.stored_name, then name_number + i * name_step in decimal,
  // then name_rest. NULL: first.stored_name on every layer.
  const char *name_rest;
  int64_t name_number, name_step;
  int64_t weight_step, state_step; // bytes
  const int64_t *gradient_steps;   // per use, bytes
  int32_t index_step;
} bd_rt_weight_series;

// `layers` alike, one after another, each with these weights.
typedef struct bd_rt_weight_run {
  int32_t layers, weight_count;
  const bd_rt_weight_series *weights;
} bd_rt_weight_run;

typedef struct bd_rt bd_rt;

// A generated kernel of a CUDA program: entry bdk_N of the device code, N its place in the table.
typedef struct bd_rt_kernel {
  int32_t threads; // of a block, a multiple of 32; any number of blocks gives the same bits
} bd_rt_kernel;

typedef struct bd_rt_stage {
  int64_t arena_bytes;
  int64_t segment_bytes[BD_RT_SEGMENTS]; // for the report
  // CUDA only, bytes in the arena: the workspace of the libraries, and room for one message of each
  // of the stage's (receiver, tag) pairs, every one rounded up to BD_RT_ALIGNMENT.
  int64_t library_offset, library_bytes;
  int64_t send_offset, send_bytes;
  int64_t most_ends;    // room for bd_rt_fetch_ends; 0: the stage has no grouped products
  int32_t weight_count; // over all runs
  int32_t run_count;
  const bd_rt_weight_run *runs;
  const bd_rt_weight *weights; // the runs written out, by the runtime; NULL in the program's tables
  void (*step)(bd_rt *rt);     // all micro-batches of one step
  void (*forward)(bd_rt *rt);  // the same, forward alone: their loss, and nothing that lasts
} bd_rt_stage;

// What a stage program tells apart when a run is profiled: step `step` of layer function
// f<function>; where `function` is -1, an op of the stage itself or work of the runtime.
typedef struct bd_rt_instruction {
  int32_t function, step;
  const char *what; // its ops
} bd_rt_instruction;
// The first instructions of every program.
enum { BD_RT_MARK_OTHER, BD_RT_MARK_CLEAR, BD_RT_MARK_UPDATE, BD_RT_MARKS };

// Ranges of a step: all of it, a pass of a micro-batch, a layer within, and at its end; and an
// evaluation.
enum {
  BD_RT_STEP,
  BD_RT_FORWARD,
  BD_RT_BACKWARD,
  BD_RT_LAYER,
  BD_RT_REDUCE,
  BD_RT_UPDATE,
  BD_RT_EVALUATION
};

// Integers that each sample of the data has, in a tensor called `name`.
typedef struct bd_rt_ids_input {
  const char *name;
  int64_t elements; // of a sample
  int64_t bound;    // all are below it; 0: any
} bd_rt_ids_input;
enum { BD_RT_MAX_IDS = 8 };

typedef struct bd_rt_program {
  int32_t version;
  const char *model;
  int32_t stages, axes;
  int32_t mesh[BD_RT_MAX_AXES];
  int32_t threads_per_rank;
  uint32_t zero_axes;
  int64_t global_batch, micro_batch, sequence;
  int32_t optimizer;        // BD_RT_SGD, ...
  int32_t precision;        // dtype of activations; of f16 the loss is scaled
  int64_t vocabulary;       // tokens must be below it; 0: inputs are not tokens
  int32_t tensors;          // distinct weights of the model
  const bd_rt_stage *stage; // `stages` of them
  int64_t classes;          // targets of models without tokens must be below it; 0: any
  // CUDA programs: the generated kernels and the fat binary that holds them. 0 on the CPU.
  int32_t kernel_count;
  const bd_rt_kernel *kernels;
  const void *device_code;
  int64_t device_code_bytes;
  // What the fat binary has machine code for, as "80 90"; of the first also PTX. NULL: not told.
  const char *architectures;
  int32_t has_f8_products; // with factors in 8 bits
  int32_t ids_count;
  const bd_rt_ids_input *ids;
  int32_t instruction_count;
  const bd_rt_instruction *instructions;
  // Of a step, all ranks: the model's products, convolutions and attention, forward and backward,
  // nothing twice; and what a device of the plan's cluster does of large products in a second. 0:
  // not known.
  double model_flops, flops_per_second;
} bd_rt_program;

// A function that runs once: its parameters lie at `in` one after another, each rounded up to
// BD_RT_ALIGNMENT, and its results at `out` in the same way.
typedef struct bd_rt_evaluation {
  int64_t in_bytes, work_bytes, out_bytes;
  void (*run)(bd_rt *rt, char *in, char *work, char *out);
} bd_rt_evaluation;

// Coordinates of the counter-based generator (Philox4x32-10; see docs/numerics.md).
typedef struct bd_rt_random {
  uint64_t seed, step;
  int64_t first_sample; // global index of the micro-batch's first sample
  int32_t call;
  int32_t keeps_all; // nothing is dropped, or scaled for what is: the pass is no training
} bd_rt_random;

// Attention's tiles: rows of queries and of keys, and how many threads at most work at once.
enum { BD_RT_ATTENTION_ROWS = 64, BD_RT_ATTENTION_KEYS = 128, BD_RT_ATTENTION_WORKERS = 32 };
// What the runtime on GPUs keeps to itself of the library segment, at its end.
enum { BD_RT_KEPT_BYTES = 1 << 16 };
// The fewest queries, and keys, of a tile in which cuDNN makes attention's gradient.
enum { BD_RT_LEAST_TILE = 512 };
// Gradients whose sums over ranks begin together, at most; GPUs make one group of them.
enum { BD_RT_BUCKET_BYTES = 32 << 20 };
// How many gathers may have slots.
enum { BD_RT_PREFETCHES = 256 };
// The widest heads of halves that CPU ranks take.
enum { BD_RT_ATTENTION_HALF_WIDTH = 512 };
// The most biases by relative position that a head has.
enum { BD_RT_ATTENTION_PLACES = 1024 };

// Bytes of the workspace of attention, forward and backward, whatever its shape and the threads:
// per worker two tiles and four numbers per query row.
static inline int64_t bd_rt_attention_workspace_bytes(void) {
  return (int64_t)BD_RT_ATTENTION_WORKERS * BD_RT_ATTENTION_ROWS * (2 * BD_RT_ATTENTION_KEYS + 4) *
         4;
}
// And more for the gradient of biases: sums of each sample's heads.
static inline int64_t bd_rt_attention_sums_bytes(int64_t batch, int64_t heads, int64_t places) {
  return batch * heads * places * 4;
}

// What a compiled folder has by name, beside the stages' sources: its plan, its program, what is
// built from that.
#define BD_RT_PROGRAM_FILES                                                                        \
  "plan.json", "main.c", "Makefile", "README", "build.log", "build", "runtime", "train",           \
      "kernels.h", "kernels.ll", "kernels.s", "kernels.ptx", "device_code.s", "cluster.json",      \
      "tuning.json", "products.json"
#define BD_RT_STAGE_FILE "stage%d.c"
#endif
