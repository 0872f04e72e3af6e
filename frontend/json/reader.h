// The state of reading one native graph, and the parts of the schema.
#ifndef BD_FRONTEND_JSON_READER_H
#define BD_FRONTEND_JSON_READER_H
#include "frontend/graph_build.h"
#include "frontend/json/model_json.h"
#include "ir/name_map.h"

typedef struct bd_json_reader {
  bd_graph_build graph;
  bd_name_map functions; // numbers in module->functions
  bd_name_map main;      // values of main
} bd_json_reader;

// A name of the graph: [A-Za-z0-9_.]+, at most 200 bytes. Stored names may be any text.
BD_NODISCARD bd_status bd_model_json_name(bd_ctx *ctx, const bd_json *object, const char *key,
                                          const char **out_name);
BD_NODISCARD bd_status bd_model_json_check_name(bd_ctx *ctx, const bd_json *value);

BD_NODISCARD bd_status bd_model_json_weight(bd_ctx *ctx, const bd_json *json,
                                            bd_weight *out_weight);
// No two weights of `module`, read from `list` in order, share a stored element.
BD_NODISCARD bd_status bd_model_json_check_stored(bd_ctx *ctx, const bd_json *list,
                                                  const bd_module *module);
BD_NODISCARD bd_status bd_model_json_function(bd_json_reader *reader, const bd_json *json);
BD_NODISCARD bd_status bd_model_json_call(bd_json_reader *reader, const bd_json *json);

// The ids that the strings of array `key` name in `values`.
BD_NODISCARD bd_status bd_model_json_uses(bd_ctx *ctx, const bd_json *object, const char *key,
                                          const bd_name_map *values, int *out_count,
                                          bd_id **out_ids);
// The names that `key` gives to results: a string, or an array of `min` to `max` strings.
BD_NODISCARD bd_status bd_model_json_results(bd_ctx *ctx, const bd_json *object, const char *key,
                                             int min, int max, int *out_count,
                                             const char **out_names);
#endif
