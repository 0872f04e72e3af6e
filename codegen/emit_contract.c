// Contractions as calls of bd_rt_matmul, in loops over the letters that no product can take.
#include "codegen/contract.h"
#include "codegen/emit.h"
#include "ir/float8.h"
#include "ir/pitch.h"
#include "runtime/braid_rt_abi.h"

typedef struct writer {
  const bd_emit_body *body;
  const bd_op *op;
  bd_contract contract;
  const char *count[BD_CONTRACT_LETTERS]; // valid extent of each letter, a C expression
  const bd_parts *parts;                  // of a product in parts: how each is cut
} writer;

static bd_id tensor_id(const bd_op *op, int tensor) {
  return tensor < 2 ? op->in[tensor] : op->out[0];
}

static void read_contract(writer *w) {
  bd_emitter *e = w->body->emitter;
  bd_contract_read(e->module, w->body->function, w->op, &w->contract);
  for (int i = 0; i < w->contract.letter_count; ++i) {
    const bd_contract_letter *letter = &w->contract.letter[i];
    w->count[i] = bd_emit_dim_count(e, &w->body->function->values[tensor_id(w->op, letter->tensor)],
                                    letter->dim);
  }
}

// The valid extent of a group: the slowest letter's count times the full letters after it.
static void add_extent(const writer *w, bd_contract_group_kind kind) {
  const bd_contract_group *group = &w->contract.group[kind];
  bd_text *text = w->body->text;
  int64_t rest = 1;
  if (group->count == 0) {
    bd_text_add(text, "1");
    return;
  }
  for (int i = 1; i < group->count; ++i)
    rest *= w->contract.letter[group->letter[i]].padded;
  int slowest = group->letter[0];
  if (w->contract.letter[slowest].full) {
    bd_text_addf(text, "%lld", (long long)(rest * w->contract.letter[slowest].padded));
    return;
  }
  bd_text_add(text, w->count[slowest]);
  if (rest != 1) bd_text_addf(text, " * %lld", (long long)rest);
}

static bool is_summed(const writer *w, int letter) {
  return !w->contract.letter[letter].in[2];
}

static void add_outer_loops(const writer *w) {
  bd_text *text = w->body->text;
  for (int i = 0; i < w->contract.outer_count; ++i) {
    int letter = w->contract.outer[i];
    char c = w->contract.letter[letter].letter;
    bd_text_addf(text, "  for (int64_t %c = 0; %c < %s; ++%c)\n", c, c, w->count[letter], c);
  }
}

static bd_dtype dtype_of(const writer *w, int tensor) {
  return w->body->function->values[tensor_id(w->op, tensor)].type.dtype;
}

static void add_address(const writer *w, int tensor) {
  bd_text *text = w->body->text;
  bd_text_addf(text, "(%s *)v%d", bd_emit_c_type(dtype_of(w, tensor)), tensor_id(w->op, tensor));
  for (int i = 0; i < w->contract.outer_count; ++i) {
    const bd_contract_letter *letter = &w->contract.letter[w->contract.outer[i]];
    if (letter->in[tensor])
      bd_text_addf(text, " + %c * %lld", letter->letter, (long long)letter->stride[tensor]);
  }
}

// True for terms after an element's first.
static void add_accumulate(const writer *w, bool accumulates) {
  bd_text *text = w->body->text;
  bool any = false;
  for (int i = 0; i < w->contract.outer_count; ++i) {
    int letter = w->contract.outer[i];
    if (accumulates || !is_summed(w, letter)) continue;
    bd_text_addf(text, "%s%c > 0",
                 any ? " || " : ", .accumulate = ", w->contract.letter[letter].letter);
    any = true;
  }
  if (accumulates) bd_text_add(text, ", .accumulate = 1");
}

// Whether the product before had the same factor: only innermost loops have gone on since, of
// letters that it lacks.
static void add_kept(const writer *w, int tensor) {
  bd_text *text = w->body->text;
  bool any = false;
  for (int i = w->contract.outer_count - 1; i >= 0; --i) {
    const bd_contract_letter *letter = &w->contract.letter[w->contract.outer[i]];
    if (letter->in[tensor]) break;
    bd_text_addf(text, "%s%c > 0", any ? " || " : "", letter->letter);
    any = true;
  }
  if (!any) bd_text_add(text, "0");
}

bool bd_emit_float8(const bd_emit_body *body, const bd_op *op, bool swapped) {
  static const char *const names[BD_FLOAT8_COUNT] = {
      [BD_E4M3] = "BD_RT_E4M3", [BD_E5M2] = "BD_RT_E5M2"};
  const char *formats = bd_op_string(op, "fp8");
  bd_float8 format[2];
  if (!formats || !bd_float8_parse(formats, format)) return false;
  bd_text_addf(body->text, ",\n      .f8 = {%s, %s}", names[format[swapped]],
               names[format[!swapped]]);
  if (!bd_op_find_attr(op, "scratch")) return false;
  bd_text_addf(body->text, ", .f8_room = work + %lld", (long long)bd_op_int(op, "scratch", 0));
  return true;
}

static void add_float8(const writer *w) {
  if (!bd_emit_float8(w->body, w->op, w->contract.swapped) || w->contract.outer_count == 0) return;
  bd_text_add(w->body->text, ", .f8_kept = {");
  add_kept(w, w->contract.swapped);
  bd_text_add(w->body->text, ", ");
  add_kept(w, !w->contract.swapped);
  bd_text_add(w->body->text, "}");
}

static void add_strides(const writer *w) {
  bd_contract_strides s = bd_contract_get_strides(&w->contract);
  const bd_parts *p = w->parts;
  if (p && p->blocks > 1) {
    s.a_batch = p->rows * p->chunks * s.a_m;
    s.b_batch = 0;
    s.out_batch = p->runs * p->rows * s.out_m;
  }
  bd_text_addf(w->body->text,
               ",\n      .a_m = %lld, .a_k = %lld, .a_batch = %lld, .b_k = %lld, .b_n = %lld, "
               ".b_batch = %lld,\n      .out_m = %lld, .out_batch = %lld",
               (long long)s.a_m, (long long)s.a_k, (long long)s.a_batch, (long long)s.b_k,
               (long long)s.b_n, (long long)s.b_batch, (long long)s.out_m, (long long)s.out_batch);
}

// Of a part: the ranks' blocks are the batch, the rows of a chunk m.
static void add_kind(const writer *w, bd_contract_group_kind kind) {
  if (w->parts && (kind == BD_CONTRACT_M || kind == BD_CONTRACT_BATCH))
    bd_text_addf(w->body->text, "%lld",
                 (long long)(kind == BD_CONTRACT_M ? w->parts->rows : w->parts->blocks));
  else
    add_extent(w, kind);
}

static void add_shape(const writer *w, bool accumulates) {
  static const char *const names[BD_CONTRACT_GROUPS] = {".batch", ".m", ".n", ".k"};
  bd_text *text = w->body->text;
  bd_text_add(text, "&(bd_rt_gemm){");
  for (int kind = 0; kind < BD_CONTRACT_GROUPS; ++kind) {
    bd_text_addf(text, "%s%s = ", kind ? ", " : "", names[kind]);
    add_kind(w, kind);
  }
  add_strides(w);
  add_accumulate(w, accumulates);
  bd_text_addf(text, ",\n      .dtype = %s, .out_dtype = %s", bd_emit_dtype(dtype_of(w, 0)),
               bd_emit_dtype(dtype_of(w, 2)));
  add_float8(w);
  bd_text_add(text, "}");
}

static void add_factors(const writer *w) {
  add_address(w, w->contract.swapped ? 1 : 0);
  bd_text_add(w->body->text, ", ");
  add_address(w, w->contract.swapped ? 0 : 1);
  bd_text_add(w->body->text, ", ");
}

static void add_product(const writer *w, bool accumulates) {
  bd_text_add(w->body->text, "  bd_rt_matmul(rt, ");
  add_shape(w, accumulates);
  bd_text_add(w->body->text, ", ");
  add_factors(w);
  add_address(w, 2);
  bd_text_add(w->body->text, ");\n");
}

// A summed outer loop that a rank has no part of would leave the result unset: zero it first.
static void add_zero(const writer *w, bool accumulates) {
  for (int i = 0; i < w->contract.outer_count; ++i) {
    int letter = w->contract.outer[i];
    if (accumulates || !is_summed(w, letter) || w->contract.letter[letter].full) continue;
    int64_t bytes = bd_value_elements(w->body->emitter->module, w->body->function, w->op->out[0]) *
                    bd_dtype_bytes(dtype_of(w, 2));
    bd_text_addf(w->body->text, "  if (%s == 0) bd_rt_zero(rt, v%d, %lld);\n", w->count[letter],
                 w->op->out[0], (long long)bytes);
  }
}

bd_status bd_emit_contract(const bd_emit_body *body, const bd_op *op) {
  writer w = {.body = body, .op = op};
  read_contract(&w);
  bool accumulates = bd_accumulates(body->function, op->out[0]);
  add_zero(&w, accumulates);
  add_outer_loops(&w);
  add_product(&w, accumulates);
  return BD_OK;
}

static void add_epilogue(bd_text *text, const bd_epilogue *e) {
  static const char *const kinds[] = {
      [BD_RT_EPILOGUE_BIAS] = "BIAS",   [BD_RT_EPILOGUE_GELU] = "GELU",
      [BD_RT_EPILOGUE_ADD] = "ADD",     [BD_RT_EPILOGUE_GELU_GRAD] = "GELU_GRAD",
      [BD_RT_EPILOGUE_SUM_A] = "SUM_A", [BD_RT_EPILOGUE_SUM_B] = "SUM_B"};
  bd_text_addf(text, "&(bd_rt_epilogue){.kind = BD_RT_EPILOGUE_%s", kinds[e->kind]);
  if (e->bias != BD_NO_ID) bd_text_addf(text, ", .bias = v%d", e->bias);
  if (e->other != BD_NO_ID) bd_text_addf(text, ", .other = v%d", e->other);
  if (e->sums != BD_NO_ID) bd_text_addf(text, ", .sums = v%d", e->sums);
  bd_text_add(text, "}");
}

void bd_emit_epilogue(const bd_emit_body *body, const bd_op *op, const bd_epilogue *epilogue) {
  writer w = {.body = body, .op = op};
  read_contract(&w);
  bd_text_add(body->text, "  if (!bd_rt_matmul_with(rt, ");
  add_shape(&w, bd_accumulates(body->function, op->out[0]));
  bd_text_add(body->text, ",\n      ");
  add_epilogue(body->text, epilogue);
  bd_text_add(body->text, ", ");
  add_factors(&w);
  bd_text_addf(body->text, "v%d))", epilogue->out);
}

// Elements from the first row of the product to the first of a part, or of a run of it.
static void add_source(const writer *w, int64_t row) {
  const bd_parts *p = w->parts;
  const long long sample = p->blocks * p->chunks * p->rows * row;
  if (p->samples == 1) {
    bd_text_addf(w->body->text, " + part * %lld", (long long)(p->rows * row));
    return;
  }
  if (p->chunks == 1)
    bd_text_addf(w->body->text, " + part * %lld", p->runs * sample);
  else
    bd_text_addf(w->body->text, " + part / %lld * %lld + part %% %lld * %lld", (long long)p->chunks,
                 sample, (long long)p->chunks, (long long)(p->rows * row));
  if (p->runs > 1) bd_text_addf(w->body->text, " + run * %lld", sample);
}

// What follows one another in the result is a part after a part, and the runs of a block.
static void add_target(const writer *w) {
  const bd_parts *p = w->parts;
  bd_text_addf(w->body->text, " + part * %lld",
               (long long)(p->blocks * p->runs * p->rows * p->columns));
  if (p->runs > 1) bd_text_addf(w->body->text, " + run * %lld", (long long)(p->rows * p->columns));
}

void bd_emit_contract_part(const bd_emit_body *body, const bd_emit_part *part) {
  writer w = {.body = body, .op = part->product, .parts = part->parts};
  read_contract(&w);
  bd_text *text = body->text;
  const int first = w.contract.swapped ? 1 : 0;
  const bd_id out = part->collective->in[0];
  if (w.parts->runs > 1)
    bd_text_addf(text, "    for (int64_t run = 0; run < %lld; ++run)\n  ",
                 (long long)w.parts->runs);
  bd_text_add(text, "    bd_rt_matmul(rt, ");
  add_shape(&w, w.parts->sum >= 0);
  bd_text_add(text, ",\n      ");
  add_address(&w, first);
  add_source(&w, bd_contract_get_strides(&w.contract).a_m);
  bd_text_add(text, ", ");
  add_address(&w, !first);
  bd_text_addf(text, ", (%s *)v%d", bd_emit_c_type(dtype_of(&w, 2)), out);
  add_target(&w);
  bd_text_add(text, ");\n");
}
