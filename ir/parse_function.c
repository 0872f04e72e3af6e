#include "ir/parse_internal.h"

static bd_status parse_input_kind(bd_parser *p) {
  bd_module *module = p->module;
  for (int kind = 0; kind < BD_INPUT_KIND_COUNT; ++kind) {
    bd_loc loc = bd_parser_loc(p);
    if (!bd_parser_accept_word(p, bd_input_kind_name((bd_input_kind)kind))) continue;
    if (module->input_count + 1 != p->function->param_count)
      return bd_fail(p->ctx, BD_INVALID, loc, "inputs stand before all other parameters of main");
    size_t count = (size_t)module->input_count;
    module->inputs =
        bd_arena_grow(p->ctx->arena, module->inputs, count, count + 1, sizeof *module->inputs);
    module->inputs[module->input_count++] = (bd_input_kind)kind;
    return BD_OK;
  }
  return BD_OK;
}

static bd_status parse_params(bd_parser *p, bool is_main) {
  bd_function *function = p->function;
  BD_TRY(bd_parser_expect(p, '('));
  while (!bd_parser_peek(p, ')')) {
    if (function->param_count > 0) BD_TRY(bd_parser_expect(p, ','));
    bd_loc loc = bd_parser_loc(p);
    const char *name = NULL;
    bd_value like;
    bd_id id = BD_NO_ID;
    BD_TRY(bd_parser_value(p, &name));
    BD_TRY(bd_parser_expect(p, ':'));
    BD_TRY(bd_parser_value_type(p, &like));
    BD_TRY(bd_parser_define(p, loc, name, &like, true, &id));
    if (is_main) BD_TRY(parse_input_kind(p));
    function->is_weight[function->param_count - 1] = bd_parser_accept_word(p, "weight");
  }
  return bd_parser_expect(p, ')');
}

static bd_status parse_header(bd_parser *p, bool is_main) {
  BD_TRY(parse_params(p, is_main));
  if (is_main) return bd_parser_expect(p, '{');
  if (bd_parser_accept_word(p, "backward")) p->function->role = BD_ROLE_BACKWARD;
  if (bd_parser_accept_word(p, "peer"))
    BD_TRY(bd_parser_symbol(p, "the peer (@name)", &p->function->peer));
  if (bd_parser_accept_word(p, "restores"))
    BD_TRY(bd_parser_small(p, "the count of restored values", 0, p->function->param_count,
                           &p->function->restore_count));
  return bd_parser_expect(p, '{');
}

static bd_status parse_saves(bd_parser *p) {
  do {
    bd_id id = BD_NO_ID;
    BD_TRY(bd_parser_use(p, &id));
    bd_function_add_save(p->ctx, p->function, id);
  } while (bd_parser_accept(p, ','));
  return BD_OK;
}

// `of @weight` after result i > 0 of main, `of N` after a result of a backward function.
static bd_status parse_gradient(bd_parser *p, bool is_main) {
  bd_loc loc = bd_parser_loc(p);
  int index = p->function->result_count - 1;
  if (!bd_parser_accept_word(p, "of")) return BD_OK;
  if (!is_main)
    return bd_parser_small(p, "the number of a forward parameter", 0, INT32_MAX,
                           &p->function->gradient_of[index]);
  const char *name = NULL;
  BD_TRY(bd_parser_symbol(p, "a weight (@name)", &name));
  int weight = bd_name_map_find(&p->weights, name);
  if (weight < 0) return bd_fail(p->ctx, BD_INVALID, loc, "there is no weight @%s", name);
  if (index == 0)
    return bd_fail(p->ctx, BD_INVALID, loc, "main's first result is the loss, no gradient");
  p->module->gradient_weight[index - 1] = weight;
  return BD_OK;
}

static bd_status parse_return(bd_parser *p, bool is_main) {
  bd_module *module = p->module;
  if (bd_parser_peek(p, '}')) return BD_OK;
  do {
    bd_id id = BD_NO_ID;
    BD_TRY(bd_parser_use(p, &id));
    bd_function_add_result(p->ctx, p->function, id);
    int gradients = p->function->result_count - 1;
    if (is_main && gradients > 0 && (gradients & (gradients - 1)) == 0)
      module->gradient_weight =
          bd_arena_grow(p->ctx->arena, module->gradient_weight, (size_t)gradients - 1,
                        (size_t)gradients * 2, sizeof *module->gradient_weight);
    if (is_main && gradients > 0) module->gradient_weight[gradients - 1] = -1;
    BD_TRY(parse_gradient(p, is_main));
  } while (bd_parser_accept(p, ','));
  return BD_OK;
}

bd_status bd_parser_function(bd_parser *p, bool is_main) {
  p->function->loc = bd_parser_loc(p);
  p->values = bd_name_map_init(p->ctx->arena);
  BD_TRY(parse_header(p, is_main));
  while (true) {
    if (bd_parser_accept_word(p, "save")) {
      BD_TRY(parse_saves(p));
      BD_TRY(bd_parser_expect_word(p, "return"));
      break;
    }
    if (bd_parser_accept_word(p, "return")) break;
    BD_TRY(bd_parser_op(p));
  }
  BD_TRY(parse_return(p, is_main));
  return bd_parser_expect(p, '}');
}
