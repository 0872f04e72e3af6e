// Kernels under test: one op each, whole or cut over three ranks with padding, against the op's
// reference evaluation. Padding holds NaN, so a kernel that reads it is found out.
#ifndef SUPPORT_KERNELS_H
#define SUPPORT_KERNELS_H
#include "codegen/kernel/kernel.h"
#include "ir/interpret.h"
#include "runtime/braid_rt_abi.h"

enum { KERNEL_RANKS = 3, KERNEL_SAMPLES = 6 };

typedef struct kernel_case {
  bd_op_kind kind;
  const char
      *shapes; // operands separated by spaces; 'i' before indices; 'p' before what is positive; 'w'
               // before what is far apart, and -inf here and there; a
               // type and a colon before elements that are not reals of the run's type; 'B' for the
               // KERNEL_SAMPLES samples of all ranks
  const char *attributes; // "name=value ..."; the value's form gives the kind
  const char *letters;    // loops to split in turn; one that runs within another, in each of that one
} kernel_case;

extern const kernel_case kernel_cases[];
extern const int kernel_case_count;
extern const kernel_case gpu_kernel_cases[]; // of what GPUs alone have, or do their own way
extern const int gpu_kernel_case_count;

typedef struct kernel_run {
  const kernel_case *from;
  bd_dtype real;
  int loop; // split by the last axis, or -1
  int8_t split[BD_MAX_AXES];
  bd_module *module;
  bd_function *function;
  bd_kernel kernel;
  bd_index_map map;
} kernel_run;

// The kernel of a case with loop `letter` cut over the ranks, or uncut (0). The indices of the loop
// that it runs within lie on so many times the ranks. Reals are of type `real`, statistics in f32.
void kernel_run_make(bd_ctx *ctx, const kernel_case *from, bd_dtype real, char letter, bool cuda,
                     int number, kernel_run *out);
// Whether there is no such kernel with nothing cut: of chunks each rank has one.
bool kernel_case_is_cut(const kernel_case *from);
// Whether an operand is of the run's type.
bool kernel_case_has_halves(const kernel_case *from);
// Appends parameters of the given shapes, for an op of `kind`; returns how many.
int kernel_parse_params(bd_ctx *ctx, bd_function *function, bd_op_kind kind, const char *shapes,
                        bd_dtype real, bd_id *out);

// Runs the kernel once for one rank.
typedef void (*kernel_executor)(void *user, const kernel_run *run, char *const *buffers,
                                const int64_t *range, const bd_rt_random *random);
// Runs all ranks on random operands and compares with the reference; fails the test on difference.
void kernel_run_check(bd_ctx *ctx, const kernel_run *run, kernel_executor execute, void *user);
// Local bytes of a value on every rank.
int64_t kernel_value_bytes(const kernel_run *run, bd_id value);

double kernel_next_real(uint64_t *state); // uniform in [0, 1)
// Runs a program to its end, its messages written to the file `log` (NULL: shown); fails the test
// unless its status is 0.
void kernel_spawn(const char *const *arguments, const char *log);
// Removes the files of a kernel set, and their folder; kept where BD_KEEP is set.
void kernel_remove_outputs(bd_ctx *ctx, const char *folder, const char *stem);
#endif
