#include "ir/cluster_precision.h"
#include <string.h>

// As on the command line.
static const struct {
  const char *name;
  bd_dtype dtype;
} precisions[] = {{"fp32", BD_F32}, {"bf16", BD_BF16}, {"fp16", BD_F16}};
enum { PRECISIONS = sizeof precisions / sizeof *precisions };

static int find(const bd_json *item) {
  int p = 0;
  while (p < PRECISIONS &&
         (item->kind != BD_JSON_STRING || strcmp(precisions[p].name, item->string) != 0))
    p++;
  return p;
}

bd_status bd_cluster_precisions_read(bd_ctx *ctx, const bd_json *json, unsigned *out_lacks) {
  const bd_json *list = NULL;
  unsigned has = 0;
  BD_TRY(bd_json_array(ctx, json, "precisions", false, &list));
  if (!list) return BD_OK;
  for (size_t i = 0; i < list->count; i++) {
    int p = find(&list->items[i]);
    if (p == PRECISIONS)
      return bd_fail(ctx, BD_INVALID, list->items[i].loc,
                     "unknown precision; known are fp32, bf16 and fp16");
    has |= 1u << precisions[p].dtype;
  }
  if (!(has >> BD_F32 & 1u))
    return bd_fail(ctx, BD_INVALID, list->loc, "every device computes with fp32; name it");
  for (int p = 0; p < PRECISIONS; p++)
    if (!(has >> precisions[p].dtype & 1u)) *out_lacks |= 1u << precisions[p].dtype;
  return BD_OK;
}

void bd_cluster_precisions_print(unsigned lacks, bd_text *text) {
  const char *comma = "";
  bd_text_add(text, "[");
  for (int p = 0; p < PRECISIONS; p++) {
    if (lacks >> precisions[p].dtype & 1u) continue;
    bd_text_addf(text, "%s\"%s\"", comma, precisions[p].name);
    comma = ", ";
  }
  bd_text_add(text, "]");
}

// fp8 is bf16 with other products.
static bool lacks(const bd_flops *flops, unsigned lacks, bd_dtype precision) {
  if (precision == BD_F8) return flops->f8 == 0 || lacks >> BD_BF16 & 1u;
  return lacks >> precision & 1u;
}

// What all devices of the cluster compute with instead, as options: 16 bits first.
static const char *name_others(bd_ctx *ctx, const bd_cluster *cluster, bd_dtype precision) {
  const char *names = "";
  for (int p = 1; p < PRECISIONS; p++)
    if (precisions[p].dtype != precision &&
        !lacks(&cluster->flops, cluster->lacks, precisions[p].dtype))
      names = bd_intern_f(ctx, "%s%s or ", names, precisions[p].name);
  return bd_intern_f(ctx, "%s%s", names, precisions[0].name);
}

// The first kind of a cluster that lacks a precision.
static const char *name_lacking(const bd_cluster *cluster, bd_dtype precision) {
  for (int k = 0; k < cluster->kind_count; k++)
    if (lacks(&cluster->kinds[k].flops, cluster->kinds[k].lacks, precision))
      return cluster->kinds[k].name;
  return cluster->name;
}

bd_status bd_cluster_check_programs(bd_ctx *ctx, const bd_cluster *cluster) {
  if (!cluster->gpu || !lacks(&cluster->flops, cluster->lacks, BD_BF16)) return BD_OK;
  return bd_fail(
      ctx, BD_UNSUPPORTED, BD_NOWHERE,
      "devices of '%s' have no bf16 arithmetic, and programs need GPUs that have it (compute "
      "capability 8.0 or newer): such clusters can be planned with --emit plan, explained and "
      "simulated; for a program name others (a100-80gb, h100, l40s, ...)",
      name_lacking(cluster, BD_BF16));
}

bd_status bd_cluster_check_precision(bd_ctx *ctx, const bd_cluster *cluster, bd_dtype precision) {
  if (!lacks(&cluster->flops, cluster->lacks, precision)) return BD_OK;
  const char *name = name_lacking(cluster, precision);
  const char *others = name_others(ctx, cluster, precision);
  if (precision == BD_F8)
    return bd_fail(
        ctx, BD_INVALID, BD_NOWHERE,
        "devices of '%s' do not multiply in fp8 (their cluster has no \"flops_f8\"); plan "
        "for --precision %s, or on devices that do",
        name, others);
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                 "devices of '%s' have no %s arithmetic; plan for --precision %s, or on devices "
                 "that have it",
                 name, bd_dtype_name(precision), others);
}
