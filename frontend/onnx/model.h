// What an ONNX file says, before anything is made of it: one flat list of nodes (calls of the
// model's own functions are expanded), values by number, and tensors that are slices of the mapped
// file. The file is hostile: nothing is allocated from a length or count that the bytes do not bear
// out.
#ifndef BD_FRONTEND_ONNX_MODEL_H
#define BD_FRONTEND_ONNX_MODEL_H
#include "frontend/onnx/wire.h"
#include "ir/base/file.h"
#include "ir/type.h"
#include <string.h>

// As the file numbers them (TensorProto.DataType).
typedef enum bd_onnx_dtype {
  BD_ONNX_UNDEFINED = 0,
  BD_ONNX_FLOAT = 1,
  BD_ONNX_UINT8 = 2,
  BD_ONNX_INT8 = 3,
  BD_ONNX_UINT16 = 4,
  BD_ONNX_INT16 = 5,
  BD_ONNX_INT32 = 6,
  BD_ONNX_INT64 = 7,
  BD_ONNX_STRING = 8,
  BD_ONNX_BOOL = 9,
  BD_ONNX_FLOAT16 = 10,
  BD_ONNX_DOUBLE = 11,
  BD_ONNX_UINT32 = 12,
  BD_ONNX_UINT64 = 13,
  BD_ONNX_BFLOAT16 = 16,
  BD_ONNX_SEQUENCE = 255, // of tensors; in no file
} bd_onnx_dtype;

const char *bd_onnx_dtype_name(bd_onnx_dtype dtype); // "float32"; "an unknown type"
int bd_onnx_dtype_bytes(bd_onnx_dtype dtype);        // of an element; 0: not one that braid reads
bool bd_onnx_is_float(bd_onnx_dtype dtype);
bool bd_onnx_is_integer(bd_onnx_dtype dtype); // bool is none
// Integers of at most 63 bits: whose values and ranges an int64 holds.
bool bd_onnx_fits_int64(bd_onnx_dtype dtype);

typedef enum bd_onnx_encoding {
  BD_ONNX_RAW,      // little-endian elements in `data`
  BD_ONNX_VARINTS,  // a varint an element in `data`
  BD_ONNX_EXTERNAL, // little-endian elements in another file
} bd_onnx_encoding;

// A tensor of numbers whose data has been checked to be there, of the size that its shape says.
typedef struct bd_onnx_tensor {
  const char *name; // interned; "" for none
  bd_onnx_dtype dtype;
  int rank;
  int64_t dims[BD_MAX_RANK]; // >= 0
  int64_t elements;
  bd_onnx_encoding encoding;
  bd_onnx_bytes data;
  const char *location;               // external: relative to the model's folder
  int64_t offset_bytes, length_bytes; // external: within that file
} bd_onnx_tensor;

// As the file numbers them (AttributeProto.AttributeType).
typedef enum bd_onnx_attribute_kind {
  BD_ONNX_ATTRIBUTE_NONE = 0,
  BD_ONNX_ATTRIBUTE_FLOAT = 1,
  BD_ONNX_ATTRIBUTE_INT = 2,
  BD_ONNX_ATTRIBUTE_STRING = 3,
  BD_ONNX_ATTRIBUTE_TENSOR = 4,
  BD_ONNX_ATTRIBUTE_GRAPH = 5,
  BD_ONNX_ATTRIBUTE_FLOATS = 6,
  BD_ONNX_ATTRIBUTE_INTS = 7,
  BD_ONNX_ATTRIBUTE_STRINGS = 8,
  BD_ONNX_ATTRIBUTE_TENSORS = 9,
  BD_ONNX_ATTRIBUTE_GRAPHS = 10,
  BD_ONNX_ATTRIBUTE_SPARSE = 11,
  BD_ONNX_ATTRIBUTE_KINDS = 15
} bd_onnx_attribute_kind;

typedef struct bd_onnx_attribute {
  const char *name;            // interned
  bd_onnx_attribute_kind kind; // lists of tensors and of graphs are told by it and not read
  const char *reference;       // in a function: the name of the caller's attribute; else NULL
  int64_t integer;
  double real;
  const char *string;           // interned
  const bd_onnx_tensor *tensor; // TENSOR
  bd_onnx_bytes graph;          // GRAPH, not read
  int count;                    // of the list
  const int64_t *integers;
  const float *reals;
  const char *const *strings;
} bd_onnx_attribute;

#define BD_ONNX_ABSENT (-1) // an operand or result that is left out

// Where nodes of a branch of an If stand: they run when all conditions are as they say.
typedef struct bd_onnx_guard {
  int condition; // a value, one bool
  bool taken_if; // what it must be
  const struct bd_onnx_guard *outer;
} bd_onnx_guard;

// An If comes after the nodes of its branches, and its operands are the condition, the results of
// its then_branch, and those of its else_branch.
typedef struct bd_onnx_node {
  const char *name, *op, *domain; // interned; domain "" is ai.onnx
  const bd_onnx_guard *guard;     // or NULL
  int64_t version;                // of the domain's operator set, where the node stands
  int number;                     // in the model's list
  int in_count, out_count, attribute_count;
  int *in, *out; // values
  bd_onnx_attribute *attributes;
} bd_onnx_node;

// An extent as declared: a number, or -1 and perhaps a symbol's name.
typedef struct bd_onnx_extent {
  int64_t value;
  const char *symbol;
} bd_onnx_extent;

typedef struct bd_onnx_declared {
  bd_onnx_dtype dtype;
  int rank; // -1: not said
  const bd_onnx_extent *dims;
} bd_onnx_declared;

typedef struct bd_onnx_value {
  const char *name;
  int producer;                      // a node, or -1
  const bd_onnx_tensor *initializer; // or NULL
  const bd_onnx_declared *declared;  // of inputs and outputs of the graph, else NULL
} bd_onnx_value;

typedef struct bd_onnx_model {
  const char *path; // for diagnostics
  const char *folder;
  const char *name, *producer; // of the graph and of the program that wrote it; any bytes
  bd_map map;                  // empty where the bytes are the caller's
  int64_t ir_version, opset;   // opset of ai.onnx
  int value_count, node_count, input_count, output_count;
  bd_onnx_value *values;
  bd_onnx_node *nodes; // in an order in which operands come before their uses
  int *inputs, *outputs;
} bd_onnx_model;

// Maps and reads `path`. The caller closes the model, on failure too (it may be zero then).
// Errors: BD_INVALID, BD_UNSUPPORTED, one diagnostic naming the file and what is wrong in it.
BD_NODISCARD bd_status bd_onnx_open(bd_ctx *ctx, const char *path, bd_onnx_model *out_model);
void bd_onnx_close(void *model);

// The same of bytes that outlive the model. `folder`: where external data lies.
BD_NODISCARD bd_status bd_onnx_read(bd_ctx *ctx, const char *path, const char *folder,
                                    bd_onnx_bytes bytes, bd_onnx_model *out_model);

// A lone TensorProto, as the test suite's data files hold.
BD_NODISCARD bd_status bd_onnx_read_tensor(bd_ctx *ctx, const char *path, bd_onnx_bytes bytes,
                                           bd_onnx_tensor *out_tensor);

// `node 12 "name" (Conv)`, printable, in ctx->arena.
const char *bd_onnx_node_text(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_node *node);

// Whether a node is an If, which takes one of two branches.
static inline bool bd_onnx_is_if(const bd_onnx_node *node) {
  return node->domain[0] == '\0' && strcmp(node->op, "If") == 0;
}

// Reports an error of a node and returns `status`.
bd_status bd_onnx_node_fail(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_node *node,
                            bd_status status, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
#endif
