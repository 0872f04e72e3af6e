// What describing a graph of cuDNN and running its plan share.
#ifndef BD_RT_CUDA_DNN_INSIDE_H
#define BD_RT_CUDA_DNN_INSIDE_H
#include "runtime/cuda/dnn.h"

enum {
  BD_DNN_MOST_ITEMS = 160,
  BD_DNN_MOST_OPERATIONS = 48,
  BD_DNN_MOST_ADDRESSES = 24, // of buffers and constants
  BD_DNN_WHY_BYTES = 256,
};

struct bd_dnn {
  void *library, *handle;
  int version;
  cudaStream_t stream; // that the handle has
  int has_stream;
  size_t (*get_version)(void);
  const char *(*get_error_string)(int status);
  void (*get_last_error_string)(char *message, size_t bytes);
  int (*create)(void **handle);
  int (*destroy)(void *handle);
  int (*set_stream)(void *handle, cudaStream_t stream);
  int (*create_descriptor)(int kind, void **descriptor);
  int (*destroy_descriptor)(void *descriptor);
  int (*finalize)(void *descriptor);
  int (*set_attribute)(void *descriptor, int name, int type, int64_t count, const void *values);
  int (*get_attribute)(void *descriptor, int name, int type, int64_t room, int64_t *count,
                       void *values);
  int (*execute)(void *handle, void *plan, void *pack);
};

typedef union bd_dnn_value {
  float real;
  int32_t integer;
} bd_dnn_value;

struct bd_dnn_graph {
  bd_dnn *dnn;
  int refused, any_order;
  unsigned avoided, wanted; // notes
  char why[BD_DNN_WHY_BYTES];
  int item_count, operation_count;
  bd_dnn_item items[BD_DNN_MOST_ITEMS], operations[BD_DNN_MOST_OPERATIONS];
  int64_t last_id; // of a tensor
  int buffer_count, constant_count;
  int64_t buffer[BD_DNN_MOST_ADDRESSES], constant[BD_DNN_MOST_ADDRESSES]; // their ids
  bd_dnn_value value[BD_DNN_MOST_ADDRESSES];                              // of constants
};

// Notes what `call` returned; the first refusal stays. Returns whether nothing was refused so far.
int bd_dnn_accept(bd_dnn_graph *graph, int status, const char *call);
// A descriptor that lives as long as the graph, not finalized. NULL once something was refused.
bd_dnn_item bd_dnn_create(bd_dnn_graph *graph, bd_dnn_kind kind);
void bd_dnn_set(bd_dnn_graph *graph, bd_dnn_item item, const bd_dnn_attribute *attribute);
void bd_dnn_discard(bd_dnn_graph *graph);
#endif
