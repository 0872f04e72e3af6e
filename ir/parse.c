#include "ir/parse_internal.h"
#include <limits.h>

static bd_status parse_mesh(bd_parser *p) {
  bd_module *module = p->module;
  BD_TRY(bd_parser_expect_word(p, "mesh"));
  bd_loc loc = bd_parser_loc(p);
  int64_t *sizes = NULL;
  int axes = 0;
  BD_TRY(bd_parser_ints(p, "the size of a mesh axis", 1, INT_MAX, &sizes, &axes));
  if (axes > BD_MAX_AXES)
    return bd_fail(p->ctx, BD_INVALID, loc, "a mesh has at most %d axes", BD_MAX_AXES);
  module->mesh.axes = axes;
  for (int axis = 0; axis < axes; ++axis)
    module->mesh.size[axis] = (int)sizes[axis];
  BD_TRY(bd_parser_expect_word(p, "stages"));
  BD_TRY(bd_parser_small(p, "the number of stages", 1, INT_MAX, &module->stages));
  BD_TRY(bd_parser_expect_word(p, "micro_batch"));
  BD_TRY(bd_parser_int(p, "the micro-batch", 1, BD_MAX_ELEMENTS, &module->micro_batch));
  module->cuda = bd_parser_accept_word(p, "cuda");
  module->one_head = module->cuda && bd_parser_accept_word(p, "one_head");
  return BD_OK;
}

static bd_status parse_storage(bd_parser *p, bd_storage *storage) {
  BD_TRY(bd_parser_expect_word(p, "stored"));
  BD_TRY(bd_parser_string(p, "the stored name (a string)", &storage->name));
  if (bd_parser_accept_word(p, "stack")) {
    BD_TRY(bd_parser_int(p, "the number of stored tensors", 1, BD_MAX_STACK, &storage->stack));
    BD_TRY(bd_parser_string(p, "the rest of their names (a string)", &storage->stack_rest));
    if (bd_parser_accept_word(p, "from")) {
      int64_t by = 1;
      BD_TRY(bd_parser_int(p, "the first one's number", 0, BD_MAX_ELEMENTS, &storage->stack_first));
      BD_TRY(bd_parser_expect_word(p, "by"));
      BD_TRY(bd_parser_int(p, "the step of their numbers", 1, BD_MAX_ELEMENTS, &by));
      storage->stack_gap = by - 1;
    }
  }
  bd_loc loc = bd_parser_loc(p);
  int64_t *dims = NULL;
  BD_TRY(bd_parser_ints(p, "an extent", 1, BD_MAX_ELEMENTS, &dims, &storage->rank));
  if (storage->rank > BD_MAX_RANK)
    return bd_fail(p->ctx, BD_INVALID, loc, "a stored tensor has at most %d dimensions",
                   BD_MAX_RANK);
  for (int i = 0; i < storage->rank; ++i)
    storage->dims[i] = dims[i];
  storage->slice_dim = -1;
  if (bd_parser_accept_word(p, "slice")) {
    BD_TRY(bd_parser_small(p, "the sliced dimension", 0, BD_MAX_RANK - 1, &storage->slice_dim));
    BD_TRY(bd_parser_int(p, "the slice's start", 0, BD_MAX_ELEMENTS, &storage->slice_start));
    BD_TRY(bd_parser_int(p, "the slice's size", 1, BD_MAX_ELEMENTS, &storage->slice_size));
    if (bd_parser_accept_word(p, "every"))
      BD_TRY(bd_parser_int(p, "the slice's step", 1, BD_MAX_ELEMENTS, &storage->slice_every));
  }
  storage->transpose = bd_parser_accept_word(p, "transpose");
  return BD_OK;
}

static bd_status parse_weight(bd_parser *p) {
  static const char *const inits[] = {"zeros", "ones", "normal", "uniform"};
  bd_weight weight = {0};
  bd_loc loc = bd_parser_loc(p);
  BD_TRY(bd_parser_symbol(p, "the weight's name (@name)", &weight.name));
  if (!bd_name_map_add(&p->weights, weight.name, p->module->weight_count))
    return bd_fail(p->ctx, BD_INVALID, loc, "there are two weights @%s", weight.name);
  BD_TRY(bd_parser_expect(p, ':'));
  BD_TRY(bd_parser_type(p, &weight.type));
  weight.wide = weight.type.dtype;
  if (bd_parser_accept_word(p, "rounded")) weight.masters = BD_MASTERS_NONE;
  if (weight.masters == BD_MASTERS_NONE || bd_parser_accept_word(p, "master"))
    BD_TRY(bd_parser_dtype(p, &weight.wide));
  if (bd_parser_accept_word(p, "gradients")) {
    int gradients = 0;
    BD_TRY(
        bd_parser_choice(p, "f32 or bf16", bd_gradients_names(), BD_GRADIENTS_COUNT, &gradients));
    weight.gradients = (bd_gradients)gradients;
  }
  BD_TRY(parse_storage(p, &weight.storage));
  BD_TRY(bd_parser_expect_word(p, "init"));
  int init = 0;
  BD_TRY(bd_parser_choice(p, "zeros, ones, normal or uniform", inits, 4, &init));
  weight.init = (bd_init_kind)init;
  if (weight.init == BD_INIT_NORMAL || weight.init == BD_INIT_UNIFORM) {
    bool is_real = false;
    int64_t integer = 0;
    BD_TRY(bd_parser_number(p, "the scale of the initialization", &is_real, &integer,
                            &weight.init_scale));
  }
  weight.decay = bd_parser_accept_word(p, "decay");
  if (bd_parser_accept_word(p, "average")) {
    bool is_real = false;
    int64_t integer = 0;
    BD_TRY(bd_parser_number(p, "the share of a new value", &is_real, &integer, &weight.average));
  }
  bd_module_add_weight(p->ctx, p->module, weight);
  return BD_OK;
}

static bd_status parse_named_function(bd_parser *p) {
  bd_loc loc = bd_parser_loc(p);
  const char *name = NULL;
  BD_TRY(bd_parser_symbol(p, "the function's name (@name)", &name));
  if (!bd_name_map_add(&p->functions, name, p->module->function_count))
    return bd_fail(p->ctx, BD_INVALID, loc, "there are two functions @%s", name);
  p->function = bd_function_create(p->ctx, name);
  bd_module_add_function(p->ctx, p->module, p->function);
  return bd_parser_function(p, false);
}

static bd_status parse_body(bd_parser *p) {
  BD_TRY(bd_parser_expect(p, '{'));
  if (p->module->stage >= BD_STAGE_SHARDED) BD_TRY(parse_mesh(p));
  while (bd_parser_accept_word(p, "weight"))
    BD_TRY(parse_weight(p));
  while (bd_parser_accept_word(p, "func"))
    BD_TRY(parse_named_function(p));
  if (!bd_parser_accept_word(p, "main")) return bd_parser_expected(p, "'func' or 'main'");
  p->function = p->module->main;
  BD_TRY(bd_parser_function(p, true));
  BD_TRY(bd_parser_expect(p, '}'));
  if (!bd_parser_at_end(p)) return bd_parser_expected(p, "the end of the file");
  return BD_OK;
}

static bd_status parse_module(bd_parser *p) {
  const char *stages[BD_STAGE_COUNT];
  for (int i = 0; i < BD_STAGE_COUNT; ++i)
    stages[i] = bd_stage_name((bd_stage)i);
  int stage = 0;
  const char *name = NULL;
  BD_TRY(bd_parser_expect_word(p, "braid"));
  BD_TRY(bd_parser_choice(p, "a stage", stages, BD_STAGE_COUNT, &stage));
  BD_TRY(bd_parser_string(p, "the module's name (a string)", &name));
  p->module = bd_module_create(p->ctx, (bd_stage)stage, name);
  return parse_body(p);
}

bd_status bd_module_parse(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                          bd_module **out_module) {
  file = bd_intern_z(ctx, file);
  if (bytes > BD_TEXT_LIMIT_BYTES)
    return bd_fail(ctx, BD_INVALID, bd_loc_file(file), "a module's text is at most %zu bytes",
                   BD_TEXT_LIMIT_BYTES);
  bd_parser parser = {.ctx = ctx,
                      .file = file,
                      .at = data,
                      .end = data + bytes,
                      .line_start = data,
                      .line = 1,
                      .functions = bd_name_map_init(ctx->arena),
                      .weights = bd_name_map_init(ctx->arena)};
  BD_TRY(parse_module(&parser));
  BD_TRY(bd_module_verify(ctx, parser.module));
  *out_module = parser.module;
  return BD_OK;
}
