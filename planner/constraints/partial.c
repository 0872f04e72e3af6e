#include "planner/constraints/partial.h"
#include "ir/balance.h"
#include "ir/base/json.h"
#include "ir/index.h"
#include "planner/space.h"
#include <string.h>

#define MAX_COUNT ((int64_t)1 << 24)

typedef struct partial_reader {
  bd_ctx *ctx;
  const bd_module *train;
  bd_plan_request *request;
  bd_constraints *constraints;
  int layers; // forward calls of main
} partial_reader;

// `asked`: by an option, or where there is none, by default.
static bd_status disagrees(const partial_reader *r, const bd_json *root, const char *key,
                           const char *asked) {
  return bd_fail(r->ctx, BD_INVALID, bd_json_find(root, key)->loc,
                 "'%s' is %s by the options or what they leave open; make them agree, or leave it "
                 "out here",
                 key, asked);
}

// A count that the options may pin as well.
static bd_status read_count(const partial_reader *r, const bd_json *root, const char *key,
                            int64_t least, int64_t most, int64_t open, int64_t *pin) {
  int64_t value = open;
  BD_TRY(bd_json_int(r->ctx, root, key, false, least, most, &value));
  if (value == open) return BD_OK;
  if (*pin != open && *pin != value)
    return disagrees(r, root, key, bd_intern_f(r->ctx, "%lld", (long long)*pin));
  *pin = value;
  return BD_OK;
}

static bd_status read_text(const partial_reader *r, const bd_json *root, const char *key,
                           const char *given) {
  const char *value = NULL;
  BD_TRY(bd_json_string(r->ctx, root, key, false, &value));
  return value && strcmp(value, given) ? disagrees(r, root, key, bd_intern_f(r->ctx, "'%s'", given))
                                       : BD_OK;
}

// What a plan file says and the search does not choose: it must be what the options say.
static bd_status check_given(const partial_reader *r, const bd_json *root) {
  const bd_plan_request *request = r->request;
  int64_t sequence = request->sequence, version = 0;
  BD_TRY(bd_json_int(r->ctx, root, "braid_plan", true, 0, INT32_MAX, &version));
  if (version != BD_PLAN_VERSION)
    return bd_fail(r->ctx, BD_INVALID, root->loc, "plan version %lld; this braid reads version %d",
                   (long long)version, BD_PLAN_VERSION);
  BD_TRY(read_text(r, root, "target", request->target));
  BD_TRY(read_text(r, root, "optimizer", request->optimizer));
  BD_TRY(read_text(r, root, "precision", bd_dtype_name(request->precision)));
  BD_TRY(read_text(r, root, "masters", bd_masters_name(request->masters)));
  BD_TRY(read_text(r, root, "gradients", bd_gradients_name(request->gradients)));
  BD_TRY(read_count(r, root, "sequence", 0, MAX_COUNT, -1, &sequence));
  return read_count(r, root, "global_batch", 1, MAX_COUNT, 0, &r->request->global_batch);
}

static bd_status read_mesh(const partial_reader *r, const bd_json *root) {
  const bd_json *list = NULL;
  bd_mesh mesh = {0}, *pin = &r->request->mesh;
  int64_t devices = 1, parts;
  BD_TRY(bd_json_array(r->ctx, root, "mesh", false, &list));
  if (!list) return BD_OK;
  if (list->count > BD_MAX_AXES || !list->count)
    return bd_fail(r->ctx, BD_INVALID, list->loc, "a mesh has from 1 to %d axes", BD_MAX_AXES);
  for (size_t i = 0; i < list->count; i++) {
    const bd_json *size = &list->items[i];
    if (!bd_json_whole(size, 1, BD_MAX_DEVICES, &parts) || (devices *= parts) > BD_MAX_DEVICES)
      return bd_fail(r->ctx, BD_INVALID, size->loc, "mesh sizes are 1 or more, %d devices at most",
                     BD_MAX_DEVICES);
    mesh.size[mesh.axes++] = (int)parts;
  }
  bool same = bd_mesh_same(pin, &mesh);
  if (bd_constraints_have_degrees(r->constraints))
    return disagrees(r, root, "mesh", "made up of pinned degrees");
  if (pin->axes && !same) return disagrees(r, root, "mesh", "another one");
  *pin = mesh;
  return BD_OK;
}

static bd_status read_choices(const partial_reader *r, const bd_json *root) {
  bd_plan_request *request = r->request;
  int64_t stages = request->stages, zero = request->zero;
  const char *schedule = NULL, *recompute = NULL;
  BD_TRY(read_count(r, root, "stages", 1, BD_MAX_STAGES, 0, &stages));
  BD_TRY(read_count(r, root, "micro_batch", 1, MAX_COUNT, 0, &request->micro_batch));
  BD_TRY(read_count(r, root, "zero", 0, BD_MAX_ZERO, -1, &zero));
  BD_TRY(bd_json_string(r->ctx, root, "schedule", false, &schedule));
  BD_TRY(bd_json_string(r->ctx, root, "recompute", false, &recompute));
  request->stages = (int)stages;
  request->zero = (int)zero;
  if (schedule) {
    bd_schedule chosen;
    if (!bd_schedule_parse(schedule, &chosen))
      return bd_fail(r->ctx, BD_INVALID, bd_json_find(root, "schedule")->loc, "unknown schedule");
    if (request->schedule >= 0 && request->schedule != (int)chosen)
      return disagrees(r, root, "schedule", bd_schedule_name((bd_schedule)request->schedule));
    request->schedule = (int)chosen;
  }
  if (!recompute) return BD_OK;
  int wanted = strcmp(recompute, "none") == 0 ? 0 : strcmp(recompute, "full") == 0 ? 1 : -1;
  if (wanted < 0)
    return bd_fail(r->ctx, BD_INVALID, bd_json_find(root, "recompute")->loc,
                   "'recompute' is none or full");
  if (request->recompute >= 0 && request->recompute != wanted)
    return disagrees(r, root, "recompute", request->recompute ? "full" : "none");
  request->recompute = wanted;
  return BD_OK;
}

static bd_status read_split(const partial_reader *r, const bd_json *item, const bd_function *f,
                            int op, bd_strategy_pin *out) {
  const bd_mesh *mesh = &r->request->mesh;
  const char *split = NULL;
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  BD_TRY(bd_json_string(r->ctx, item, "split", false, &split));
  if (!split) return BD_OK;
  bd_loc loc = bd_json_find(item, "split")->loc;
  if (!mesh->axes)
    return bd_fail(r->ctx, BD_INVALID, loc, "splits are of a mesh, which is not given; add 'mesh'");
  if (strlen(split) != (size_t)mesh->axes)
    return bd_fail(r->ctx, BD_INVALID, loc, "'split' wants a letter, '-' or '?' per mesh axis");
  BD_TRY(bd_op_infer(r->ctx, f, &f->ops[op], &map, types));
  for (int axis = 0; axis < mesh->axes; axis++) {
    int loop = bd_index_find(&map, split[axis]);
    if (split[axis] == '-' || split[axis] == '?') continue;
    if (loop < 0 || map.loop[loop].kind == BD_LOOP_WHOLE)
      return bd_fail(r->ctx, BD_INVALID, loc, "%s has no loop '%c' that can be split",
                     bd_op_get_info(f->ops[op].kind)->name, split[axis]);
  }
  memcpy(out->split[op], split, (size_t)mesh->axes);
  return BD_OK;
}

// Whether some split that the pin leaves open, of a mesh that it may leave open as well, lets ranks
// swap halves of the op's queries.
static bool may_balance(const bd_mesh *mesh, const bd_op *op, const bd_index_map *map,
                        const char pin[BD_MAX_AXES]) {
  if (!bd_op_attends(op->kind)) return false;
  if (!mesh->axes) return bd_op_int(op, "causal", 0) && !bd_op_find_attr(op, "window");
  for (unsigned open = 0; open < 1u << mesh->axes; open++) {
    int8_t split[BD_MAX_AXES] = {-1, -1, -1, -1};
    for (int axis = 0; axis < mesh->axes; axis++)
      split[axis] = (int8_t)bd_index_find(map, pin[axis] != '?'   ? pin[axis]
                                               : open >> axis & 1 ? 't'
                                                                  : '-');
    if (bd_balance_chunk(op, map, mesh, split) > 0) return true;
  }
  return false;
}

static bd_status read_balanced(const partial_reader *r, const bd_json *item, const bd_function *f,
                               int op, bd_strategy_pin *out) {
  const bd_json *member = bd_json_find(item, BD_BALANCED_ATTR);
  bool balanced = false;
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  if (!member) return BD_OK;
  BD_TRY(bd_json_bool(r->ctx, item, BD_BALANCED_ATTR, true, &balanced));
  out->balanced[op] = balanced;
  if (!balanced) return BD_OK;
  BD_TRY(bd_op_infer(r->ctx, f, &f->ops[op], &map, types));
  if (may_balance(&r->request->mesh, &f->ops[op], &map, out->split[op])) return BD_OK;
  return bd_fail(r->ctx, BD_INVALID, member->loc,
                 "'%s' is for attention under a causal mask without a window whose queries are cut "
                 "in n parts and are 2n equal chunks, with dropout of a multiple of 16",
                 BD_BALANCED_ATTR);
}

static bool is_listed(const bd_json *list, const char *result) {
  for (size_t i = 0; i < list->count; i++) {
    const bd_json *member = bd_json_find(&list->items[i], "result");
    if (member && member->kind == BD_JSON_STRING && strcmp(member->string, result) == 0)
      return true;
  }
  return false;
}

// In halves some ops keep a result in f32, `NAME.f32`, of which a cast is NAME: what is said of
// NAME is said of the op, which is NAME in f32, unless the list has that too.
static int op_meant(bd_ctx *ctx, const bd_function *f, int op, const bd_json *list) {
  const bd_op *cast = &f->ops[op];
  const bd_value *from = cast->kind == BD_OP_CAST ? &f->values[cast->in[0]] : NULL;
  if (!from || from->producer < 0) return op;
  const char *kept =
      bd_intern_f(ctx, "%s.%s", f->values[cast->out[0]].name, bd_dtype_name(from->type.dtype));
  return strcmp(from->name, kept) == 0 && !is_listed(list, kept) ? from->producer : op;
}

static bd_status read_ops(const partial_reader *r, const bd_json *strategy, const bd_function *f,
                          bd_strategy_pin *out) {
  static const char *const keys[] = {"op",   "result",     "split", BD_BALANCED_ATTR,
                                     "cuts", "recomputed", NULL};
  const bd_json *list = NULL;
  bool *seen = BD_NEW_ARRAY(r->ctx->arena, bool, f->op_count);
  BD_TRY(bd_json_array(r->ctx, strategy, "ops", false, &list));
  for (size_t i = 0; list && i < list->count; i++) {
    const bd_json *item = &list->items[i];
    const char *result;
    BD_TRY(bd_json_string(r->ctx, item, "result", true, &result));
    BD_TRY(bd_json_only(r->ctx, item, keys));
    int op = 0;
    while (op < f->op_count && strcmp(f->values[f->ops[op].out[0]].name, result))
      op++;
    if (op == f->op_count)
      return bd_fail(r->ctx, BD_INVALID, item->loc, "no op of '%s' makes '%s'", f->name, result);
    op = op_meant(r->ctx, f, op, list);
    if (seen[op])
      return bd_fail(r->ctx, BD_INVALID, item->loc, "'%s' stands twice among the ops", result);
    seen[op] = true;
    BD_TRY(read_split(r, item, f, op, out));
    BD_TRY(read_balanced(r, item, f, op, out));
  }
  return BD_OK;
}

static bool is_needed(const bd_function *f, bd_id value) {
  for (int i = 0; i < f->save_count; i++)
    if (f->saves[i] == value) return f->values[value].producer >= 0;
  return false;
}

static bd_status read_values(const partial_reader *r, const bd_json *strategy, const bd_function *f,
                             bd_strategy_pin *out) {
  static const char *const keys[] = {"value", "saved", "dims", NULL};
  const bd_json *list = NULL;
  bool *seen = BD_NEW_ARRAY(r->ctx->arena, bool, f->value_count);
  BD_TRY(bd_json_array(r->ctx, strategy, "values", false, &list));
  for (size_t i = 0; list && i < list->count; i++) {
    const bd_json *item = &list->items[i];
    const char *name;
    bool saved = false;
    BD_TRY(bd_json_string(r->ctx, item, "value", true, &name));
    BD_TRY(bd_json_only(r->ctx, item, keys));
    bd_id value = 0;
    while (value < f->value_count && strcmp(f->values[value].name, name))
      value++;
    if (value == f->value_count)
      return bd_fail(r->ctx, BD_INVALID, item->loc, "'%s' has no value '%s'", f->name, name);
    if (seen[value])
      return bd_fail(r->ctx, BD_INVALID, item->loc, "'%s' stands twice among the values", name);
    seen[value] = true;
    if (bd_json_find(item, "dims"))
      return bd_fail(r->ctx, BD_INVALID, bd_json_find(item, "dims")->loc,
                     "how values settle follows from the splits of ops; leave 'dims' out");
    if (!bd_json_find(item, "saved")) continue;
    BD_TRY(bd_json_bool(r->ctx, item, "saved", true, &saved));
    if (saved && !is_needed(f, value))
      return bd_fail(r->ctx, BD_INVALID, item->loc, "backward does not read '%s'; nothing saves it",
                     name);
    out->saved[value] = saved;
  }
  return BD_OK;
}

static bd_status read_strategy(const partial_reader *r, const bd_json *item, bd_strategy_pin *out) {
  static const char *const keys[] = {"name", "function", "ops", "values", NULL};
  BD_TRY(bd_json_string(r->ctx, item, "name", true, &out->name));
  BD_TRY(bd_json_string(r->ctx, item, "function", true, &out->function));
  BD_TRY(bd_json_only(r->ctx, item, keys));
  out->loc = item->loc;
  for (const bd_strategy_pin *other = r->constraints->strategies; other < out; other++)
    if (strcmp(other->name, out->name) == 0)
      return bd_fail(r->ctx, BD_INVALID, item->loc, "two strategies are called '%s'", out->name);
  const bd_function *f = bd_module_find(r->train, out->function);
  if (!f || f->role != BD_ROLE_FORWARD)
    return bd_fail(r->ctx, BD_INVALID, item->loc, "the model has no function '%s'", out->function);
  out->split = bd_arena_array(r->ctx->arena, (size_t)f->op_count, sizeof *out->split);
  out->balanced = BD_NEW_ARRAY(r->ctx->arena, signed char, f->op_count);
  out->saved = BD_NEW_ARRAY(r->ctx->arena, signed char, f->value_count);
  memset(out->split, '?', (size_t)f->op_count * sizeof *out->split);
  memset(out->balanced, -1, (size_t)f->op_count);
  memset(out->saved, -1, (size_t)f->value_count);
  BD_TRY(read_ops(r, item, f, out));
  return read_values(r, item, f, out);
}

static bd_status read_strategies(const partial_reader *r, const bd_json *root) {
  const bd_json *list = NULL;
  BD_TRY(bd_json_array(r->ctx, root, "strategies", false, &list));
  if (!list) return BD_OK;
  r->constraints->strategies = BD_NEW_ARRAY(r->ctx->arena, bd_strategy_pin, list->count);
  for (size_t i = 0; i < list->count; i++) {
    BD_TRY(read_strategy(r, &list->items[i], &r->constraints->strategies[i]));
    r->constraints->strategy_count++;
  }
  return BD_OK;
}

// The strategy that a range names, which must be for the function that all its layers call.
static bd_status find_strategy(const partial_reader *r, const bd_json *item, const char *name,
                               bd_layer_pin *out) {
  const bd_constraints *c = r->constraints;
  for (out->strategy = c->strategy_count - 1; out->strategy >= 0; out->strategy--)
    if (strcmp(c->strategies[out->strategy].name, name) == 0) break;
  if (out->strategy < 0)
    return bd_fail(r->ctx, BD_INVALID, item->loc, "no strategy is called '%s'", name);
  const char *function = c->strategies[out->strategy].function;
  bd_model_runs runs = bd_model_runs_find(r->ctx, r->train, NULL);
  for (int i = 0, layer = 0; i < runs.count; layer += runs.runs[i++].calls)
    if (layer < out->first + out->count && layer + runs.runs[i].calls > out->first &&
        strcmp(runs.runs[i].function->name, function))
      return bd_fail(r->ctx, BD_INVALID, item->loc,
                     "layers of the range call '%s'; strategy '%s' is for '%s'",
                     runs.runs[i].function->name, name, function);
  return BD_OK;
}

static bd_status read_range(const partial_reader *r, const bd_json *item, bd_layer_pin *out) {
  static const char *const keys[] = {"first", "count", "stage", "strategy", NULL};
  const bd_layer_pin *before = out > r->constraints->layers ? out - 1 : NULL;
  int64_t first, count = 1, stage = -1;
  const char *strategy = NULL;
  BD_TRY(bd_json_int(r->ctx, item, "first", true, 0, r->layers - 1, &first));
  BD_TRY(bd_json_int(r->ctx, item, "count", false, 1, r->layers - first, &count));
  BD_TRY(bd_json_only(r->ctx, item, keys));
  BD_TRY(bd_json_string(r->ctx, item, "strategy", false, &strategy));
  if (bd_json_find(item, "stage")) {
    if (!r->request->stages)
      return bd_fail(r->ctx, BD_INVALID, item->loc,
                     "a stage is given, but not how many there are; add 'stages'");
    BD_TRY(bd_json_int(r->ctx, item, "stage", true, 0, r->request->stages - 1, &stage));
  }
  *out = (bd_layer_pin){(int)first, (int)count, (int)stage, -1, item->loc};
  if (before && before->first + before->count > out->first)
    return bd_fail(r->ctx, BD_INVALID, item->loc, "the ranges overlap or do not ascend");
  return strategy ? find_strategy(r, item, strategy, out) : BD_OK;
}

// A strategy that no range names holds for every layer of its function: there is one at most.
static bd_status check_general(const partial_reader *r) {
  const bd_constraints *c = r->constraints;
  for (int i = 0; i < c->strategy_count; i++)
    for (int other = 0; other < i && !bd_constraints_name(c, i); other++)
      if (!bd_constraints_name(c, other) &&
          strcmp(c->strategies[i].function, c->strategies[other].function) == 0)
        return bd_fail(
            r->ctx, BD_INVALID, c->strategies[i].loc,
            "'%s' and '%s' would both hold for every layer of '%s'; name them in 'layers'",
            c->strategies[other].name, c->strategies[i].name, c->strategies[i].function);
  return BD_OK;
}

// Every stage up to the last has a layer, and layers keep their order.
static bd_status check_stages(const partial_reader *r) {
  const bd_constraints *c = r->constraints;
  int layer = 0, stage = 0;
  for (int i = 0; i < c->layer_count; i++) {
    const bd_layer_pin *pin = &c->layers[i];
    if (pin->stage < 0) continue;
    if (pin->stage < stage || pin->first - layer < pin->stage - stage)
      return bd_fail(
          r->ctx, BD_INVALID, pin->loc,
          "stage %d cannot be: stages ascend along the layers, and each has one at least",
          pin->stage);
    stage = pin->stage;
    layer = pin->first + pin->count - 1;
  }
  for (int i = c->layer_count - 1; i >= 0; i--)
    if (c->layers[i].stage >= 0 &&
        r->layers - 1 - layer < r->request->stages - 1 - c->layers[i].stage)
      return bd_fail(r->ctx, BD_INVALID, c->layers[i].loc,
                     "stage %d leaves too few layers for the stages after it", c->layers[i].stage);
    else if (c->layers[i].stage >= 0)
      break;
  return BD_OK;
}

static bd_status read_layers(partial_reader *r, const bd_json *root) {
  const bd_json *list = NULL;
  BD_TRY(bd_json_array(r->ctx, root, "layers", false, &list));
  bd_model_runs runs = bd_model_runs_find(r->ctx, r->train, NULL);
  for (int i = 0; i < runs.count; i++)
    r->layers += runs.runs[i].calls;
  if (!list) return BD_OK;
  r->constraints->layers = BD_NEW_ARRAY(r->ctx->arena, bd_layer_pin, list->count);
  for (size_t i = 0; i < list->count; i++) {
    BD_TRY(read_range(r, &list->items[i], &r->constraints->layers[i]));
    r->constraints->layer_count++;
  }
  return check_stages(r);
}

// Every whole plan says how many threads a rank has, and no partial one does.
static bd_status refuse_whole(bd_ctx *ctx, const bd_json *root) {
  if (!bd_json_find(root, "threads_per_rank")) return BD_OK;
  return bd_fail(ctx, BD_INVALID, root->loc,
                 "is a whole plan, which leaves nothing to search: 'braid compile --plan FILE' "
                 "takes it; a partial plan has only what is to be kept of it (docs/plan.md)");
}

bd_status bd_partial_read(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                          const bd_module *train, bd_plan_request *request,
                          bd_constraints *constraints) {
  static const char *const keys[] = {
      "braid_plan", "model",  "target",  "optimizer", "precision",   "global_batch", "sequence",
      "cluster",    "stages", "mesh",    "layers",    "micro_batch", "schedule",     "recompute",
      "strategies", "zero",   "masters", "gradients", NULL};
  partial_reader r = {ctx, train, request, constraints, 0};
  const bd_json *root;
  BD_TRY(bd_json_parse(ctx, file, data, bytes, &root));
  if (root->kind != BD_JSON_OBJECT)
    return bd_fail(ctx, BD_INVALID, root->loc, "a partial plan is a JSON object");
  BD_TRY(refuse_whole(ctx, root));
  BD_TRY(bd_json_only(ctx, root, keys));
  BD_TRY(check_given(&r, root));
  BD_TRY(read_choices(&r, root));
  BD_TRY(read_mesh(&r, root));
  BD_TRY(read_strategies(&r, root));
  request->constraints = constraints;
  BD_TRY(read_layers(&r, root));
  return check_general(&r);
}
