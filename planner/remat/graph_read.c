// Files of graphs: `node ID NAME BACKWARD FLOPS BYTES`, `edge PRODUCER CONSUMER`, `params COUNT`.
#include "planner/remat/graph.h"
#include "planner/remat/lines.h"
#include <string.h>

typedef struct reading {
  bd_lines lines;
  bd_graph *graph;
  int edges, edge_capacity;
  int (*edge)[2];
  bool has_params;
} reading;

static bd_status read_node(reading *r) {
  bd_graph *graph = r->graph;
  int64_t id, backward;
  BD_TRY(bd_lines_count(&r->lines, 6, "node ID NAME BACKWARD FLOPS BYTES"));
  if (graph->nodes == BD_GRAPH_MAX_NODES)
    return bd_fail(r->lines.ctx, BD_INVALID, bd_lines_loc(&r->lines, 0),
                   "the graph has more than %d nodes", BD_GRAPH_MAX_NODES);
  BD_TRY(bd_lines_int(&r->lines, 1, "the node's number", graph->nodes, graph->nodes, &id));
  BD_TRY(bd_lines_int(&r->lines, 3, "the backward mark", 0, 1, &backward));
  BD_TRY(bd_lines_real(&r->lines, 4, "the cost", &graph->cost[id]));
  BD_TRY(bd_lines_int(&r->lines, 5, "the size", 0, BD_GRAPH_MAX_BYTES, &graph->bytes[id]));
  graph->nodes++;
  return BD_OK;
}

static bd_status read_edge(reading *r) {
  int64_t producer, consumer;
  BD_TRY(bd_lines_count(&r->lines, 3, "edge PRODUCER CONSUMER"));
  if (r->graph->nodes < 1)
    return bd_fail(r->lines.ctx, BD_INVALID, bd_lines_loc(&r->lines, 0),
                   "an edge wants its nodes on lines before it");
  int64_t last = r->graph->nodes - 1;
  BD_TRY(bd_lines_int(&r->lines, 1, "the producer (a node on a line before)", 0, last, &producer));
  BD_TRY(bd_lines_int(&r->lines, 2, "the consumer (a node on a line before)", 0, last, &consumer));
  if (producer == consumer)
    return bd_fail(r->lines.ctx, BD_INVALID, bd_lines_loc(&r->lines, 0),
                   "the edge joins node %d to itself: no value is computed from itself",
                   (int)producer);
  if (producer > consumer)
    return bd_fail(r->lines.ctx, BD_INVALID, bd_lines_loc(&r->lines, 0),
                   "the edge goes from node %d back to %d; number nodes in an order in which they "
                   "can be computed",
                   (int)producer, (int)consumer);
  if (r->edges == r->edge_capacity) {
    int capacity = r->edge_capacity ? 2 * r->edge_capacity : 256;
    r->edge = bd_arena_grow(r->lines.ctx->arena, r->edge, (size_t)r->edges, (size_t)capacity,
                            sizeof *r->edge);
    r->edge_capacity = capacity;
  }
  r->edge[r->edges][0] = (int)producer;
  r->edge[r->edges++][1] = (int)consumer;
  return BD_OK;
}

static bd_status read_params(reading *r) {
  int64_t params;
  if (r->has_params)
    return bd_fail(r->lines.ctx, BD_INVALID, bd_lines_loc(&r->lines, 0), "'params' stands twice");
  r->has_params = true;
  BD_TRY(bd_lines_count(&r->lines, 2, "params COUNT"));
  return bd_lines_int(&r->lines, 1, "the number of parameters", 0, BD_GRAPH_MAX_BYTES, &params);
}

static bd_status read_line(reading *r) {
  if (bd_lines_is(&r->lines, 0, "node")) return read_node(r);
  if (bd_lines_is(&r->lines, 0, "edge")) return read_edge(r);
  if (bd_lines_is(&r->lines, 0, "params")) return read_params(r);
  return bd_fail(r->lines.ctx, BD_INVALID, bd_lines_loc(&r->lines, 0),
                 "a line begins with 'node', 'edge' or 'params'");
}

bd_status bd_graph_read(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                        bd_graph *out) {
  reading r = {.lines = bd_lines_init(ctx, file, data, bytes), .graph = out};
  *out = (bd_graph){0};
  out->cost = BD_NEW_ARRAY(ctx->arena, double, BD_GRAPH_MAX_NODES);
  out->bytes = BD_NEW_ARRAY(ctx->arena, int64_t, BD_GRAPH_MAX_NODES);
  while (bd_lines_next(&r.lines))
    BD_TRY(read_line(&r));
  if (!out->nodes) return bd_fail(ctx, BD_INVALID, bd_loc_file(file), "the graph has no nodes");
  out->words = (out->nodes + 63) / 64;
  size_t words = (size_t)out->nodes * (size_t)out->words;
  out->inputs = BD_NEW_ARRAY(ctx->arena, uint64_t, words);
  out->consumers = BD_NEW_ARRAY(ctx->arena, uint64_t, words);
  for (int i = 0; i < r.edges; i++) {
    bd_set_add(out->inputs + (size_t)r.edge[i][1] * (size_t)out->words, r.edge[i][0]);
    bd_set_add(out->consumers + (size_t)r.edge[i][0] * (size_t)out->words, r.edge[i][1]);
  }
  return BD_OK;
}
