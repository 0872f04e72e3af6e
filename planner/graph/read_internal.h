// The parts of the layer graph reader.
#ifndef BD_PLANNER_GRAPH_READ_INTERNAL_H
#define BD_PLANNER_GRAPH_READ_INTERNAL_H
#include "ir/base/json.h"
#include "planner/graph/read.h"

enum {
  BD_LAYERS_MAX_LAYERS = 4096,
  BD_LAYERS_MAX_OPTIONS = 256, // of a layer
  BD_LAYERS_MAX_FORMS = 16,
  BD_LAYERS_MAX_DEVICES = 1 << 20,
  BD_LAYERS_MAX_MICRO_BATCHES = 1 << 16,
  BD_LAYERS_MAX_CHUNKS = 64,
};
// So that products with counts stay in range.
#define BD_LAYERS_MAX_BYTES ((int64_t)1 << 40)
#define BD_LAYERS_MAX_SECONDS 1e9

typedef struct bd_layers_link {
  double latency_seconds, bytes_per_second; // INFINITY: free
} bd_layers_link;

// One layer entry of the file.
typedef struct bd_layers_entry {
  const char *name;
  int first, count; // layers of the problem
  int64_t output_bytes;
} bd_layers_entry;

// A value that passes from layer to layer.
typedef struct bd_layers_value {
  int from, to; // producer and last consumer
  bool skips;   // a consumer is not the next layer
  int64_t bytes;
} bd_layers_value;

typedef struct bd_layers_reader {
  bd_ctx *ctx;
  const bd_json *root;
  bd_layers_problem *problem;
  bd_layers_names *names;
  bd_layers_group *groups;
  const char **kinds;    // per group
  double *speeds;        // per group
  bd_layers_link *links; // [group][group]
  bd_layers_mode *modes;
  int form_count;
  const char *forms[BD_LAYERS_MAX_FORMS];
  double change[BD_LAYERS_MAX_FORMS][BD_LAYERS_MAX_FORMS]; // seconds
  int entry_count, value_count, value_capacity;
  bd_layers_entry *entries;
  bd_layers_value *values;
} bd_layers_reader;

// Groups of devices and the links among them.
BD_NODISCARD bd_status bd_layers_read_devices(bd_layers_reader *reader, int64_t cap_bytes);
// Layers, their options, forms and modes.
BD_NODISCARD bd_status bd_layers_read_layers(bd_layers_reader *reader);
// What passes between layers, and from it the cuts.
BD_NODISCARD bd_status bd_layers_read_edges(bd_layers_reader *reader);
#endif
