// Graphs of cuDNN, a library that need not be there: what a graph computes is described once, an
// engine for it is chosen, and the plan that comes of it runs as often as one likes. Work whose
// graph no engine takes is left to other kernels, so describing never ends a program; running does.
#ifndef BD_RT_CUDA_DNN_H
#define BD_RT_CUDA_DNN_H
#include "runtime/cuda/dnn_abi.h"

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bd_dnn bd_dnn;             // the library
typedef struct bd_dnn_graph bd_dnn_graph; // being described
typedef struct bd_dnn_plan bd_dnn_plan;

// Loads cuDNN 9.16 or newer for the current device. NULL: it cannot be used, and `why` says so.
bd_dnn *bd_dnn_open(char *why, size_t why_bytes);
// After its plans. NULL is nothing.
void bd_dnn_close(bd_dnn *dnn);
// 10000 * major + 100 * minor + patch.
int bd_dnn_version(const bd_dnn *dnn);

// One attribute of a descriptor: `count` values of `type` at `values`.
typedef struct bd_dnn_attribute {
  bd_dnn_name name;
  bd_dnn_type type;
  int64_t count;
  const void *values;
} bd_dnn_attribute;

// A finished descriptor; it lives as long as its graph. NULL once something was refused, which
// bd_dnn_choose then reports: whoever describes need not look.
typedef void *bd_dnn_item;

bd_dnn_graph *bd_dnn_begin(bd_dnn *dnn);
bd_dnn_item bd_dnn_make(bd_dnn_graph *graph, bd_dnn_kind kind, const bd_dnn_attribute *attributes,
                        int count);
// An operation of the graph, which they make up in any order.
void bd_dnn_operation(bd_dnn_graph *graph, bd_dnn_kind kind, const bd_dnn_attribute *attributes,
                      int count);

enum { BD_DNN_MOST_RANK = 5 };

// Dimensions and strides, in elements. An address that is a multiple of `alignment` bytes. A
// `reordered` tensor lies in tiles of 16 x 16, within as many bytes.
typedef struct bd_dnn_tensor {
  bd_dnn_data data;
  int rank, alignment, reordered;
  int64_t dims[BD_DNN_MOST_RANK], strides[BD_DNN_MOST_RANK];
} bd_dnn_tensor;

// In memory: bd_dnn_run gets the addresses of these in the order of their description.
bd_dnn_item bd_dnn_buffer(bd_dnn_graph *graph, const bd_dnn_tensor *tensor);
// Between operations of the graph; never in memory.
bd_dnn_item bd_dnn_inner(bd_dnn_graph *graph, const bd_dnn_tensor *tensor);
// One f32, which the plan keeps, in `rank` dimensions.
bd_dnn_item bd_dnn_constant(bd_dnn_graph *graph, int rank, float value);
// One i32.
bd_dnn_item bd_dnn_integer(bd_dnn_graph *graph, int rank, int32_t value);

// y = mode(x, b), or of BD_DNN_BINARY_SELECT: of t x, else b. NULL operands are not there. `axis`:
// of BD_DNN_GEN_INDEX, else ignored. `math` is what is computed in.
// Of BD_DNN_TANH_BWD b is the gradient of tanh x, and y that of x.
typedef struct bd_dnn_pointwise {
  bd_dnn_mode mode;
  bd_dnn_data math;
  int64_t axis;
  bd_dnn_item x, b, t, y;
} bd_dnn_pointwise;
void bd_dnn_add_pointwise(bd_dnn_graph *graph, const bd_dnn_pointwise *op);
// c [.., m, n] = a [.., m, k] b [.., k, n], in f32.
void bd_dnn_add_matmul(bd_dnn_graph *graph, bd_dnn_item a, bd_dnn_item b, bd_dnn_item c);
// Over the dimensions that are shorter in y, in f32.
void bd_dnn_add_reduction(bd_dnn_graph *graph, bd_dnn_reduction op, bd_dnn_item x, bd_dnn_item y);
// The same elements seen with y's dimensions and strides.
void bd_dnn_add_reshape(bd_dnn_graph *graph, bd_dnn_item x, bd_dnn_item y);

// Engines that say any of these notes of their numbers (a bit for each) are not taken.
void bd_dnn_avoid(bd_dnn_graph *graph, unsigned notes);
// Those that do not say all of these are not taken either.
void bd_dnn_want(bd_dnn_graph *graph, unsigned notes);
// Engines may give other bits from run to run.
void bd_dnn_allow_any_order(bd_dnn_graph *graph);

// Ends the description. The first engine of the library's own order that is not said to give other
// bits from run to run, unless that is allowed, whose workspace has at most so many bytes, and that
// can be had. NULL: there is none, and `why` says what the library does.
bd_dnn_plan *bd_dnn_choose(bd_dnn_graph *graph, int64_t most_workspace_bytes, char *why,
                           size_t why_bytes);
void bd_dnn_free(bd_dnn_plan *plan); // NULL is nothing
int64_t bd_dnn_workspace_bytes(const bd_dnn_plan *plan);
// Asks for the plan's work on a stream, which may be one that is being captured. `addresses`: of
// the graph's buffers; `workspace`: as many bytes as the plan said.
void bd_dnn_run(const bd_dnn_plan *plan, void *const *addresses, void *workspace,
                cudaStream_t stream);
#endif
