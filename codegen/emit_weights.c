// The weights of a stage. Layers that are alike share entries, whose names and addresses advance.
#include "codegen/emit.h"
#include "codegen/numbered_name.h"
#include "ir/optimizer.h"
#include <string.h>

#define LONGEST_PERIOD 64

// Of a weight: what changes from layer to layer.
typedef struct address {
  const char *name;
  int64_t weight, state, index;
  int tied_stage; // another holder, or -1; the same for a run
  int gradient_count;
  int64_t *gradients; // in the order of their uses
} address;

typedef struct writer {
  bd_emitter *e;
  const bd_layout *layouts, *layout;
  int stage;
  const int *weights; // of the stage: indices into module->weights
  address *addresses; // per weight of the stage
  bd_id **gradients;  // per weight of the stage: results of main
  bd_text *text;
} writer;

static int other_holder(const writer *w, int weight) {
  for (int s = 0; s < w->e->module->stages; ++s)
    for (int i = 0; s != w->stage && i < w->layouts[s].weight_count; ++i)
      if (w->layouts[s].weights[i] == weight) return s;
  return -1;
}

// The forward call that a gradient (a result of main) derives from: the order of its accumulation.
static int forward_call(const writer *w, bd_id gradient) {
  const bd_function *main = w->e->module->main;
  int producer = main->values[gradient].producer;
  return producer < 0 ? -1 : (int)bd_op_int(&main->ops[producer], "of", producer);
}

static int64_t address_of(const writer *w, const bd_place *place) {
  return w->layout->segment_start[place->segment] + place->offset_bytes;
}

// The accumulators of each weight, in the order of its uses.
static void find_gradients(writer *w, const int *position) {
  const bd_module *module = w->e->module;
  for (int i = 1; i < module->main->result_count; ++i) {
    bd_id id = module->main->results[i];
    int k = position[module->gradient_weight[i - 1]];
    if (k < 0 || w->layout->values[id].segment != BD_SEGMENT_GRADIENTS) continue;
    address *a = &w->addresses[k];
    w->gradients[k] = bd_arena_grow(w->e->ctx->arena, w->gradients[k], (size_t)a->gradient_count,
                                    (size_t)a->gradient_count + 1, sizeof(bd_id));
    int at = a->gradient_count++;
    for (; at > 0 && forward_call(w, w->gradients[k][at - 1]) > forward_call(w, id); --at)
      w->gradients[k][at] = w->gradients[k][at - 1];
    w->gradients[k][at] = id;
  }
}

static bd_id value_of(const writer *w, int k) {
  const bd_module *module = w->e->module;
  return module->main->params[module->input_count + w->weights[k]];
}

static void find_addresses(writer *w) {
  const bd_module *module = w->e->module;
  int count = w->layout->weight_count;
  int *position = BD_NEW_ARRAY(w->e->ctx->arena, int, module->weight_count);
  for (int i = 0; i < module->weight_count; ++i)
    position[i] = -1;
  for (int k = 0; k < count; ++k)
    position[w->weights[k]] = k;
  w->addresses = BD_NEW_ARRAY(w->e->ctx->arena, address, count);
  w->gradients = BD_NEW_ARRAY(w->e->ctx->arena, bd_id *, count);
  find_gradients(w, position);
  for (int k = 0; k < count; ++k) {
    address *a = &w->addresses[k];
    a->name = module->weights[w->weights[k]].storage.name;
    a->weight = address_of(w, &w->layout->values[value_of(w, k)]);
    a->state = address_of(w, &w->layout->states[w->weights[k]]);
    a->index = w->weights[k];
    a->tied_stage = other_holder(w, w->weights[k]);
    a->gradients = BD_NEW_ARRAY(w->e->ctx->arena, int64_t, a->gradient_count);
    for (int i = 0; i < a->gradient_count; ++i)
      a->gradients[i] = address_of(w, &w->layout->values[w->gradients[k][i]]);
  }
}

static bool same_storage(const bd_storage *a, const bd_storage *b) {
  if (a->rank != b->rank || a->transpose != b->transpose || a->slice_dim != b->slice_dim ||
      a->slice_start != b->slice_start || a->slice_size != b->slice_size ||
      a->slice_every != b->slice_every || a->stack != b->stack ||
      a->stack_first != b->stack_first || a->stack_gap != b->stack_gap ||
      (a->stack > 0 && strcmp(a->stack_rest, b->stack_rest) != 0))
    return false;
  for (int d = 0; d < a->rank; ++d)
    if (a->dims[d] != b->dims[d]) return false;
  return true;
}

// Whether two weights differ in what a layer changes only.
static bool are_alike(const writer *w, int a, int b) {
  const bd_module *module = w->e->module;
  const bd_weight *x = &module->weights[w->weights[a]], *y = &module->weights[w->weights[b]];
  const bd_value *v = &module->main->values[value_of(w, a)],
                 *u = &module->main->values[value_of(w, b)];
  if (!same_storage(&x->storage, &y->storage) || x->init != y->init || x->decay != y->decay ||
      x->masters != y->masters || x->gradients != y->gradients || x->average != y->average ||
      x->init_scale != y->init_scale || !bd_type_equal(&v->type, &u->type) ||
      !bd_sharding_equal(&v->sharding, &u->sharding) ||
      w->layout->state_elements[w->weights[a]] != w->layout->state_elements[w->weights[b]] ||
      w->addresses[a].gradient_count != w->addresses[b].gradient_count ||
      w->addresses[a].tied_stage != w->addresses[b].tied_stage)
    return false;
  for (int i = 0; i < w->addresses[a].gradient_count; ++i)
    if (!bd_sharding_equal(&module->main->values[w->gradients[a][i]].sharding,
                           &module->main->values[w->gradients[b][i]].sharding))
      return false;
  return true;
}

static bool step_evenly(const address *a, const address *b, const address *c) {
  bool even = b->weight - a->weight == c->weight - b->weight &&
              b->state - a->state == c->state - b->state &&
              b->index - a->index == c->index - b->index;
  for (int i = 0; i < a->gradient_count; ++i)
    even = even && b->gradients[i] - a->gradients[i] == c->gradients[i] - b->gradients[i];
  return even;
}

// Whether weight k and those after it, `period` apart, are `layers` of one series.
static bool continues(const writer *w, int k, int period, int layers) {
  int last = k + (layers - 1) * period;
  const address *a = w->addresses;
  bd_numbered_name name;
  if (!are_alike(w, k, last) || !bd_numbered_name_find(a[k].name, a[k + period].name, &name) ||
      !bd_numbered_name_matches(&name, a[k].name, layers - 1, a[last].name))
    return false;
  return layers == 2 || step_evenly(&a[last - 2 * period], &a[last - period], &a[last]);
}

static int count_layers(const writer *w, int first, int period) {
  int layers = 1;
  for (; first + (layers + 1) * period <= w->layout->weight_count; ++layers)
    for (int k = first; k < first + period; ++k)
      if (!continues(w, k, period, layers + 1)) return layers;
  return layers;
}

typedef struct run {
  int first, period, layers;
} run;

// The longest stretch of alike layers from the weight on.
static run find_run(const writer *w, int first) {
  run best = {first, 1, 1};
  for (int period = 1; period <= LONGEST_PERIOD; ++period) {
    int layers = count_layers(w, first, period);
    if (layers > 1 && layers * period > best.layers * best.period)
      best = (run){first, period, layers};
  }
  return best;
}

static void add_dims(bd_text *text, const int64_t *dims, int rank, int64_t batch) {
  bd_text_add(text, "{");
  for (int d = 0; d < rank; ++d)
    bd_text_addf(text, "%s%lld", d ? ", " : "", (long long)bd_extent(dims[d], batch));
  bd_text_add(text, rank ? "}" : "0}");
}

static void add_layout(const writer *w, const bd_value *value) {
  bd_text_addf(w->text, "{%d, %d, ", value->type.dtype, value->type.rank);
  add_dims(w->text, value->type.dims, value->type.rank, w->e->module->micro_batch);
  bd_text_add(w->text, ", {");
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    bd_text_addf(w->text, "%s%d", axis ? ", " : "",
                 axis < w->e->module->mesh.axes ? value->sharding.at[axis] : BD_REPLICATED);
  bd_text_add(w->text, "}}");
}

static void add_storage(const writer *w, const bd_storage *storage, const bd_numbered_name *name) {
  bd_text *text = w->text;
  bd_text_add(text, ".stored_name = ");
  bd_text_add_c_string(text, bd_intern(w->e->ctx, storage->name, name->prefix_bytes));
  if (storage->stack > 0) {
    bd_text_addf(text, ", .stack = %lld, .stack_rest = ", (long long)storage->stack);
    bd_text_add_c_string(text, storage->stack_rest);
    if (storage->stack_first > 0 || storage->stack_gap > 0)
      bd_text_addf(text, ", .stack_first = %lld, .stack_gap = %lld",
                   (long long)storage->stack_first, (long long)storage->stack_gap);
  }
  bd_text_addf(text, ", .stored_rank = %d, .stored_dims = ", storage->rank);
  add_dims(text, storage->dims, storage->rank, 0);
  bd_text_addf(
      text, ",\n      .slice_dim = %d, .slice_start = %lld, .slice_size = %lld, .transpose = %d,",
      storage->slice_dim, (long long)storage->slice_start, (long long)storage->slice_size,
      storage->transpose);
  if (storage->slice_every > 0)
    bd_text_addf(text, " .slice_every = %lld,", (long long)storage->slice_every);
}

// The axis that cuts the accumulators of a weight which it does not cut, or -1.
static int cut_axis_of(const writer *w, int k) {
  const bd_function *main = w->e->module->main;
  if (w->addresses[k].gradient_count == 0) return -1;
  const bd_sharding *form = &main->values[value_of(w, k)].sharding;
  const bd_sharding *gradient = &main->values[w->gradients[k][0]].sharding;
  for (int axis = 0; axis < w->e->module->mesh.axes; ++axis)
    if (form->at[axis] < 0 && gradient->at[axis] >= 0) return axis;
  return -1;
}

static void add_gradients(const writer *w, int k) {
  const bd_module *module = w->e->module;
  const address *a = &w->addresses[k];
  bd_text_addf(w->text, ", .gradient_count = %d,", a->gradient_count);
  if (a->gradient_count == 0) return;
  bd_text_add(w->text, "\n      .gradient_offsets = (const int64_t[]){");
  for (int i = 0; i < a->gradient_count; ++i)
    bd_text_addf(w->text, "%s%lld", i ? ", " : "", (long long)a->gradients[i]);
  bd_text_add(w->text, "}, .gradient_partial = (const uint32_t[]){");
  for (int i = 0; i < a->gradient_count; ++i) {
    const bd_value *value = &module->main->values[w->gradients[k][i]];
    bd_text_addf(w->text, "%s0x%xu", i ? ", " : "",
                 bd_emit_axes(module, &value->sharding, BD_PARTIAL_SUM));
  }
  bd_text_add(w->text, "},");
  int cut = cut_axis_of(w, k);
  if (cut >= 0)
    bd_text_addf(w->text, "\n      .cut_axis = 1 + %d, .cut_dim = %d,", cut,
                 module->main->values[w->gradients[k][0]].sharding.at[cut]);
}

static void add_weight(const writer *w, int k, const bd_numbered_name *name) {
  const bd_module *module = w->e->module;
  const bd_weight *weight = &module->weights[w->weights[k]];
  bd_text *text = w->text;
  bd_text_add(text, "    {.first = {");
  add_storage(w, &weight->storage, name);
  bd_text_add(text, "\n      .layout = ");
  add_layout(w, &module->main->values[value_of(w, k)]);
  bd_text_addf(text, ",\n      .weight_offset = %lld", (long long)w->addresses[k].weight);
  add_gradients(w, k);
  bd_text_addf(text, "\n      .state_offset = %lld, .state_elements = %lld, .global_index = %d, ",
               (long long)w->addresses[k].state,
               (long long)w->layout->state_elements[w->weights[k]], w->weights[k]);
  if (weight->masters == BD_MASTERS_NONE) bd_text_add(text, ".rounded = 1, ");
  if (weight->gradients == BD_GRADIENTS_BF16) bd_text_add(text, ".gradient_dtype = BD_RT_BF16, ");
  bd_text_addf(text, ".init = %d, .init_scale = (float)", weight->init);
  bd_text_add_double(text, weight->init_scale);
  bd_text_addf(text, ",\n      .decay = %d, .average = (float)", weight->decay);
  bd_text_add_double(text, weight->average);
  bd_text_addf(text, ", .factor_dim = %d, .tied_stage = %d}",
               bd_optimizer_factor_dim(&weight->type), w->addresses[k].tied_stage);
}

static void add_steps(const writer *w, const run *r, int k, const bd_numbered_name *name) {
  const address *a = &w->addresses[k], *b = &w->addresses[k + r->period];
  bd_text *text = w->text;
  bd_text_add(text, ",\n     ");
  if (name->rest) {
    bd_text_addf(text,
                 ".name_number = %lld, .name_step = %lld, .name_rest = ", (long long)name->number,
                 (long long)name->step);
    bd_text_add_c_string(text, name->rest);
    bd_text_add(text, ", ");
  }
  bd_text_addf(text, ".weight_step = %lld, .state_step = %lld, .index_step = %lld",
               (long long)(b->weight - a->weight), (long long)(b->state - a->state),
               (long long)(b->index - a->index));
  if (a->gradient_count == 0) return;
  bd_text_add(text, ",\n     .gradient_steps = (const int64_t[]){");
  for (int i = 0; i < a->gradient_count; ++i)
    bd_text_addf(text, "%s%lld", i ? ", " : "", (long long)(b->gradients[i] - a->gradients[i]));
  bd_text_add(text, "}");
}

static void add_run(const writer *w, const run *r) {
  if (r->layers > 1) bd_text_addf(w->text, "    // %d layers of %d:\n", r->layers, r->period);
  for (int k = r->first; k < r->first + r->period; ++k) {
    bd_numbered_name name = {.prefix_bytes = strlen(w->addresses[k].name)};
    if (r->layers > 1)
      (void)bd_numbered_name_find(w->addresses[k].name, w->addresses[k + r->period].name, &name);
    add_weight(w, k, &name);
    if (r->layers > 1) add_steps(w, r, k, &name);
    bd_text_add(w->text, "},\n");
  }
}

void bd_emit_weights(bd_emitter *emitter, const bd_layout *layouts, int stage, bd_text *text) {
  writer w = {.e = emitter, .layouts = layouts, .layout = &layouts[stage], .stage = stage};
  bd_text runs = bd_text_init(emitter->ctx->arena);
  int entries = 0, singles = 0, count = layouts[stage].weight_count;
  w.weights = w.layout->weights;
  w.text = text;
  find_addresses(&w);
  bd_text_addf(text, "\nstatic const bd_rt_weight_series weights%d[] = {\n", stage);
  for (int k = 0; k < count;) {
    run r = find_run(&w, k);
    add_run(&w, &r);
    entries += r.period;
    k += r.period * r.layers;
    if (r.layers == 1) ++singles;
    if (singles > 0 && (r.layers > 1 || k == count)) {
      int first = entries - singles - (r.layers > 1 ? r.period : 0);
      bd_text_addf(&runs, "    {1, %d, weights%d + %d},\n", singles, stage, first);
      singles = 0;
    }
    if (r.layers > 1)
      bd_text_addf(&runs, "    {%d, %d, weights%d + %d},\n", r.layers, r.period, stage,
                   entries - r.period);
  }
  // Neither table may be empty.
  if (count == 0) bd_text_add(text, "    {.first = {.stored_name = \"\"}},\n");
  if (count == 0) bd_text_addf(&runs, "    {0, 0, weights%d},\n", stage);
  bd_text_addf(text, "};\n\nstatic const bd_rt_weight_run runs%d[] = {\n%s};\n", stage, runs.data);
}
