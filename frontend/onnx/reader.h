// The state of reading one ONNX file, and its parts.
#ifndef BD_FRONTEND_ONNX_READER_H
#define BD_FRONTEND_ONNX_READER_H
#include "frontend/onnx/model.h"
#include "ir/name_map.h"

// Stated limits: a file past them is refused before anything of that size is allocated.
enum {
  BD_ONNX_MOST_NODES = 1 << 19,    // after expansion
  BD_ONNX_MOST_VALUES = 1 << 21,   // after expansion
  BD_ONNX_MOST_OPERANDS = 1 << 16, // of one node, results likewise
  BD_ONNX_MOST_ATTRIBUTES = 64,    // of one node
  BD_ONNX_MOST_LIST = 1 << 20,     // members of an attribute's list
  BD_ONNX_MOST_NAME_BYTES = 4096,  // of any name
  BD_ONNX_MOST_DOMAINS = 64,       // operator sets, of a model or function
  BD_ONNX_MOST_FUNCTIONS = 1 << 14,
  BD_ONNX_MOST_DEPTH = 64,           // functions that call functions, branches in branches
  BD_ONNX_MOST_EXPANSIONS = 1 << 16, // of functions
  BD_ONNX_MOST_BYTES = 512 << 20,    // of everything that is made of nodes
};

typedef struct bd_onnx_opset {
  const char *domain;
  int64_t version;
} bd_onnx_opset;

typedef struct bd_onnx_opsets {
  int count;
  bd_onnx_opset list[BD_ONNX_MOST_DOMAINS];
} bd_onnx_opsets;

// A function of the model: read where it is called.
typedef struct bd_onnx_function {
  const char *name, *domain;
  bd_onnx_bytes bytes;
} bd_onnx_function;

typedef struct bd_onnx_reader {
  bd_ctx *ctx;
  bd_onnx_model *model;
  const unsigned char *base; // of the file, for byte offsets in diagnostics
  bd_loc loc;
  int value_capacity, node_capacity, expansions;
  size_t used_before; // bytes of the arena
  int function_count;
  bd_onnx_function *functions;
  bd_name_map function_names; // "domain:name"
  const char *external;       // the file of external data that was looked at last, and its size
  int64_t external_bytes;
} bd_onnx_reader;

// Where names have a meaning: the graph, one expansion of a function, or a branch of an If.
typedef struct bd_onnx_scope {
  const bd_onnx_node *call; // in a function: the node that it stands for; NULL: the graph
  const char *prefix;       // before the names of inner values: "" or "call/"
  bd_name_map names;        // values
  bd_onnx_opsets opsets;
  int depth;
  const struct bd_onnx_scope *outer; // of a branch: whose names have a meaning as well
  const bd_onnx_guard *guard;        // of what is read
} bd_onnx_scope;

// The value of a name; -1: it has none.
int bd_onnx_find_value(const bd_onnx_scope *scope, const char *name);

// Reports damage of the wire format at its byte.
bd_status bd_onnx_damaged(bd_onnx_reader *reader, const bd_wire *wire, const char *message);

// Fields with the wire type that the format gives them; another one is refused.
BD_NODISCARD bd_status bd_onnx_take_bytes(bd_onnx_reader *reader, const bd_wire_field *field,
                                          const char *what, bd_onnx_bytes *out);
BD_NODISCARD bd_status bd_onnx_take_int(bd_onnx_reader *reader, const bd_wire_field *field,
                                        const char *what, int64_t *out);
// A name: interned, without NUL, at most BD_ONNX_MOST_NAME_BYTES.
BD_NODISCARD bd_status bd_onnx_take_name(bd_onnx_reader *reader, const bd_wire_field *field,
                                         const char *what, const char **out);

// How often each of the fields 0 .. 31 occurs in a message.
BD_NODISCARD bd_status bd_onnx_count_fields(bd_onnx_reader *reader, bd_onnx_bytes message,
                                            const char *what, int64_t out_counts[32]);

BD_NODISCARD bd_status bd_onnx_read_opset(bd_onnx_reader *reader, const bd_wire_field *field,
                                          bd_onnx_opsets *opsets);
// Every TensorProto, wherever it stands, is read by this.
BD_NODISCARD bd_status bd_onnx_read_tensor_message(bd_onnx_reader *reader, bd_onnx_bytes message,
                                                   bd_onnx_tensor *out_tensor);
BD_NODISCARD bd_status bd_onnx_read_attribute(bd_onnx_reader *reader, bd_onnx_bytes message,
                                              bd_onnx_attribute *out_attribute);
BD_NODISCARD bd_status bd_onnx_read_value_info(bd_onnx_reader *reader, bd_onnx_bytes message,
                                               const char **out_name,
                                               const bd_onnx_declared **out_declared);
BD_NODISCARD bd_status bd_onnx_read_graph(bd_onnx_reader *reader, bd_onnx_bytes message,
                                          bd_onnx_scope *scope);
// The graph of a branch, whose `count` outputs become `values`.
BD_NODISCARD bd_status bd_onnx_read_branch(bd_onnx_reader *reader, bd_onnx_bytes message,
                                           bd_onnx_scope *scope, int count, int *values);

// Appends the nodes of an If's branches, and makes their results its operands.
BD_NODISCARD bd_status bd_onnx_read_branches(bd_onnx_reader *reader, const bd_onnx_scope *outer,
                                             bd_onnx_node *node);

// Reads the node and appends it, or the nodes of the function that it calls. `owner`: the message
// that holds the node, for telling what is defined later.
BD_NODISCARD bd_status bd_onnx_read_node(bd_onnx_reader *reader, bd_onnx_scope *scope,
                                         bd_onnx_bytes message, bd_onnx_bytes owner,
                                         uint32_t node_field);

// Appends the nodes of `function` in place of `call`, and sets its `out` to what they make.
BD_NODISCARD bd_status bd_onnx_expand(bd_onnx_reader *reader, const bd_onnx_scope *caller,
                                      bd_onnx_node *call, const bd_onnx_function *function);
// Finds the functions of a model, to be read where they are called.
BD_NODISCARD bd_status bd_onnx_list_functions(bd_onnx_reader *reader, bd_onnx_bytes model);

// A new value, or a name for one that is there. Errors: BD_INVALID when the name stands for another
// already.
BD_NODISCARD bd_status bd_onnx_define(bd_onnx_reader *reader, bd_onnx_scope *scope,
                                      const char *name, int producer, int *out_value);
BD_NODISCARD bd_status bd_onnx_name(bd_onnx_reader *reader, bd_onnx_scope *scope, const char *name,
                                    int value);
#endif
