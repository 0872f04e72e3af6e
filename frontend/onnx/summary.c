#include "frontend/onnx/summary.h"
#include "frontend/onnx/infer/step.h"
#include <stdlib.h>
#include <string.h>

static bool is_folded(const bd_onnx_fact *fact) {
  bool empty = bd_onnx_plain(fact) && bd_onnx_count(fact) == 0;
  return empty || (!fact->weight && (fact->known || fact->tensor || fact->diagonals));
}

bool bd_onnx_takes(const bd_onnx_fact *facts, const bd_onnx_node *node, int i) {
  if (bd_onnx_is_if(node)) {
    bool then = bd_onnx_at(&facts[node->in[0]], 0).integer != 0;
    return i > 0 && (i <= node->out_count) == then;
  }
  const bd_onnx_rule *rule = bd_onnx_rule_of(node);
  if (strcmp(node->op, "NonZero") == 0) return true; // a mask that is not known
  if (node->in[i] == BD_ONNX_ABSENT || (rule && i < 32 && (rule->known >> i & 1))) return false;
  if (strcmp(node->op, "CastLike") == 0) return i == 0;
  return strcmp(node->op, "EyeLike") != 0 && strcmp(node->op, "RandomUniformLike") != 0;
}

const bool *bd_onnx_running(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_fact *facts) {
  bool *wanted = BD_NEW_ARRAY(ctx->arena, bool, model->value_count);
  bool *running = BD_NEW_ARRAY(ctx->arena, bool, model->node_count);
  for (int i = 0; i < model->output_count; i++)
    wanted[model->outputs[i]] = true;
  for (int n = model->node_count - 1; n >= 0; n--) {
    const bd_onnx_node *node = &model->nodes[n];
    for (int i = 0; i < node->out_count; i++) {
      int value = node->out[i];
      if (value != BD_ONNX_ABSENT && wanted[value] && !is_folded(&facts[value])) running[n] = true;
    }
    for (int i = 0; running[n] && i < node->in_count; i++)
      if (bd_onnx_takes(facts, node, i)) wanted[node->in[i]] = true;
  }
  return running;
}

typedef struct tally {
  const char *op;
  int count;
} tally;

static int by_count(const void *a, const void *b) {
  const tally *x = a, *y = b;
  return x->count != y->count ? y->count - x->count : strcmp(x->op, y->op);
}

// `MatMul 12, Add 10`: the nodes that run, or those that do not. Names are interned.
static void add_ops(bd_ctx *ctx, const bd_onnx_model *model, const bool *running, bool run,
                    const char *title, bd_text *text) {
  tally *ops = BD_NEW_ARRAY(ctx->arena, tally, model->node_count);
  int kinds = 0, total = 0;
  for (int n = 0; n < model->node_count; n++) {
    if (running[n] != run) continue;
    int i = 0;
    while (i < kinds && ops[i].op != model->nodes[n].op)
      i++;
    if (i == kinds) ops[kinds++].op = model->nodes[n].op;
    ops[i].count++;
    total++;
  }
  bd_text_addf(text, "%s: %d%s", title, total, total > 0 ? " (" : "\n");
  if (total == 0) return;
  qsort(ops, (size_t)kinds, sizeof *ops, by_count);
  for (int i = 0; i < kinds; i++)
    bd_text_addf(text, "%s%s %d", i > 0 ? ", " : "", ops[i].op, ops[i].count);
  bd_text_add(text, ")\n");
}

static void add_values(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_fact *facts,
                       const char *title, int count, const int *values, bd_text *text) {
  for (int i = 0; i < count; i++) {
    const bd_onnx_fact *fact = &facts[values[i]];
    const char *name = model->values[values[i]].name;
    bd_text_addf(text, "%s ", title);
    bd_text_add_printable(text, name, strlen(name));
    bd_text_addf(text, ": %s %s\n", bd_onnx_dtype_name(fact->dtype),
                 bd_onnx_dims_text(ctx, fact->rank, fact->dims));
  }
}

static void add_weights(const bd_onnx_model *model, bd_text *text) {
  int count = 0, elsewhere = 0;
  double elements = 0, bytes = 0;
  for (int i = 0; i < model->value_count; i++) {
    const bd_onnx_tensor *tensor = model->values[i].initializer;
    if (!tensor || !bd_onnx_is_float(tensor->dtype) || tensor->rank == 0) continue;
    count++;
    elsewhere += tensor->encoding == BD_ONNX_EXTERNAL;
    elements += (double)tensor->elements;
    bytes += (double)(tensor->elements * bd_onnx_dtype_bytes(tensor->dtype));
  }
  bd_text_addf(text, "parameters: %.0f in %d tensors, ", elements, count);
  bd_text_add_bytes(text, bytes < 0x1p62 ? (int64_t)bytes : INT64_MAX);
  if (elsewhere > 0) bd_text_addf(text, ", %d of them in other files", elsewhere);
  bd_text_add(text, "\n");
}

void bd_onnx_summarize(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_fact *facts,
                       bd_text *text) {
  const bool *running = bd_onnx_running(ctx, model, facts);
  bd_text_addf(text, "ONNX, operator set %lld, written by ", (long long)model->opset);
  if (model->producer[0])
    bd_text_add_printable(text, model->producer, strlen(model->producer));
  else
    bd_text_add(text, "an unnamed program");
  bd_text_add(text, "\n");
  add_values(ctx, model, facts, "input", model->input_count, model->inputs, text);
  add_values(ctx, model, facts, "output", model->output_count, model->outputs, text);
  add_weights(model, text);
  add_ops(ctx, model, running, true, "nodes that run", text);
  add_ops(ctx, model, running, false, "nodes folded away", text);
}
