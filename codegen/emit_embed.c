// The gradient of a table of rows: calls of the runtime over runs of tokens without padding
// between.
#include "codegen/emit.h"

// How the ids lie: `looped` leading dimensions are walked by loops, the tokens of the others are
// one run, of which the slowest dimension may be partly valid.
typedef struct token_run {
  int looped;
  int64_t rest;                // tokens per index of the slowest dimension of a run
  int64_t stride[BD_MAX_RANK]; // of the looped dimensions, in tokens
} token_run;

static token_run find_run(const bd_module *module, const bd_value *ids) {
  bd_type local = bd_value_local_type(module, ids);
  token_run run = {.rest = 1};
  int slowest = local.rank - 1;
  for (; slowest > 0; --slowest) {
    int64_t extent = bd_extent(ids->type.dims[slowest], module->micro_batch);
    int parts = bd_sharding_parts(&module->mesh, &ids->sharding, slowest);
    if (local.dims[slowest] * parts != extent) break;
    run.rest *= local.dims[slowest];
  }
  run.looped = slowest > 0 ? slowest : 0;
  int64_t stride = run.rest;
  for (int d = run.looped; d > 0; --d)
    run.stride[d - 1] = stride *= local.dims[d];
  return run;
}

static void add_loops(const bd_emit_body *body, const bd_value *ids, const token_run *run) {
  for (int d = 0; d < run->looped; ++d)
    bd_text_addf(body->text, "  for (int64_t i%d = 0; i%d < %s; ++i%d)\n", d, d,
                 bd_emit_dim_count(body->emitter, ids, d), d);
}

// The address of a run: of its ids, or of what belongs to each id, `width` elements.
static void add_address(const bd_emit_body *body, bd_id id, bd_dtype dtype, const token_run *run,
                        int64_t width) {
  if (run->looped > 0) bd_text_addf(body->text, "(%s *)", bd_emit_c_type(dtype));
  bd_text_addf(body->text, "v%d", id);
  for (int d = 0; d < run->looped; ++d)
    bd_text_addf(body->text, " + i%d * %lld", d, (long long)(run->stride[d] * width));
}

bd_status bd_emit_embed_dw(const bd_emit_body *body, const bd_op *op) {
  bd_emitter *e = body->emitter;
  const bd_value *dout = &body->function->values[op->in[0]],
                 *ids = &body->function->values[op->in[1]],
                 *table = &body->function->values[op->out[0]];
  bd_type rows = bd_value_local_type(e->module, dout);
  int64_t width = rows.dims[rows.rank - 1];
  token_run run = find_run(e->module, ids);
  bool accumulates = bd_accumulates(body->function, op->out[0]);
  bd_text *text = body->text;
  if (run.looped > 0 && !accumulates)
    bd_text_addf(
        text, "  bd_rt_zero(rt, v%d, %lld);\n", op->out[0],
        (long long)(bd_emit_elements(e->module, table) * bd_dtype_bytes(table->type.dtype)));
  add_loops(body, ids, &run);
  bd_text_addf(text, "  bd_rt_embed_dw(rt, %s, ", bd_emit_dtype(rows.dtype));
  add_address(body, op->in[1], ids->type.dtype, &run, 1);
  bd_text_add(text, ", ");
  add_address(body, op->in[0], rows.dtype, &run, width);
  const char *count = ids->type.rank > 0 ? bd_emit_dim_count(e, ids, run.looped) : "1";
  bd_text_addf(text, ", %s * %lld, %lld, %s, %s, %d, %s, v%d);\n", count, (long long)run.rest,
               (long long)width, bd_emit_dim_start(e, table, 0), bd_emit_dim_count(e, table, 0),
               accumulates || run.looped > 0, bd_emit_dtype(table->type.dtype), op->out[0]);
  return BD_OK;
}
