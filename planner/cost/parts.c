// Products in parts, each of which is summed over ranks while the next is computed.
#include "ir/parts.h"
#include "planner/cost/cost.h"
#include "planner/cost/kernel.h"
#include <math.h>

// What a product must take less in parts, of product and collective, to be worth it.
#define LEAST_SAVING 0.02

bool bd_cost_has_parts(const bd_cost_model *model, const bd_module *module) {
  return module->cuda && model->cluster->gpu && model->cluster->work.product_beside > 0;
}

double bd_cost_hidden_at_most(const bd_cost_model *model, const bd_cut_product *product,
                              double collective) {
  double launch = model->cluster->kernel_seconds, most = 0;
  double beside = model->cluster->work.product_beside;
  for (int count = 2; count <= BD_MAX_PARTS; count *= 2) {
    double share = (count - 1.0) / count;
    double work = share * (product->seconds - product->start_seconds) - (count - 1) * launch;
    double sums = share * beside * (collective - launch) - (count - 1) * product->start_seconds;
    most = fmax(most, fmin(work, sums));
  }
  return most;
}

// A part of a product with nothing beside it reads its rows of one factor and the other factor
// whole, in each of its runs.
static double part_seconds(const bd_cost_model *model, const bd_function *function, const bd_op *op,
                           const bd_parts *parts) {
  const bd_cluster *cluster = model->cluster;
  const bd_value *cut = &function->values[op->in[parts->factor]];
  const bd_value *other = &function->values[op->in[!parts->factor]];
  double rows = (double)(parts->count * parts->runs * parts->blocks * parts->rows);
  double terms = bd_cost_local_elements(model, &cut->type, &cut->sharding) / rows;
  bd_product run = {(double)parts->blocks, (double)parts->rows, (double)parts->columns, terms};
  double runs = (double)parts->runs;
  double bytes = (bd_cost_value_bytes(model, cut) +
                  bd_cost_value_bytes(model, &function->values[op->out[0]])) /
                     parts->count +
                 runs * bd_cost_value_bytes(model, other);
  double rate = bd_flops_of(&cluster->flops, cut->type.dtype);
  return fmax(runs * bd_cost_product(cluster, rate, &run),
              bytes / cluster->memory_bytes_per_second) +
         runs * cluster->kernel_seconds;
}

// While a collective is under way the product runs slower; when it is over, as fast as alone.
double bd_cost_in_parts(const bd_cost_model *model, const bd_function *function, int product,
                        const bd_parts *parts) {
  double part = part_seconds(model, function, &function->ops[product], parts);
  double sum =
      bd_cost_collective_part(model, function, &function->ops[parts->collective], parts->count);
  double beside = part + (1 - model->cluster->work.product_beside) * sum;
  return part + (parts->count - 1) * fmax(beside, sum) + sum;
}

bd_status bd_cost_choose_parts(bd_ctx *ctx, const bd_cost_model *model, const bd_module *module,
                               const bd_function *function, int product, int *out_count) {
  double least = INFINITY;
  *out_count = 1;
  for (int count = 2; count <= BD_MAX_PARTS; count *= 2) {
    bd_parts parts = bd_parts_of(module, function, product, count);
    if (parts.count == 1) continue;
    bd_index_map map;
    bd_type types[BD_MAX_RESULTS];
    const bd_op *op = &function->ops[product];
    BD_TRY(bd_op_infer(ctx, function, op, &map, types));
    double whole = bd_cost_op(model, function, op, &map, op->split) +
                   bd_cost_collective(model, function, &function->ops[parts.collective]);
    double seconds = bd_cost_in_parts(model, function, product, &parts);
    if (seconds >= fmin(least, (1 - LEAST_SAVING) * whole)) continue;
    least = seconds;
    *out_count = count;
  }
  return BD_OK;
}

// The product that is done in parts together with a collective, or -1.
static int product_of(const bd_module *module, const bd_function *function, int collective,
                      bd_parts *out) {
  for (int i = 0; i < collective; i++) {
    if (!bd_op_find_attr(&function->ops[i], BD_PARTS_ATTR)) continue;
    *out = bd_parts_asked(module, function, i);
    if (out->count > 1 && out->collective == collective) return i;
  }
  return -1;
}

bd_status bd_cost_exposed(bd_ctx *ctx, const bd_cost_model *model, const bd_module *module,
                          const bd_function *function, int collective, double *out_seconds) {
  const bd_op *op = &function->ops[collective];
  bd_parts parts;
  int product = -1;
  *out_seconds = bd_cost_collective(model, function, op);
  if (bd_cost_has_parts(model, module)) product = product_of(module, function, collective, &parts);
  if (product < 0) return BD_OK;
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  BD_TRY(bd_op_infer(ctx, function, &function->ops[product], &map, types));
  double alone =
      bd_cost_op(model, function, &function->ops[product], &map, function->ops[product].split);
  *out_seconds = bd_cost_in_parts(model, function, product, &parts) - alone;
  return BD_OK;
}
