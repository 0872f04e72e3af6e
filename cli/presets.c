// `braid presets`: the models and clusters known by name.
#include "cli/command.h"
#include "frontend/frontend.h"
#include "ir/cluster.h"

static bd_status run(bd_ctx *ctx, const bd_arguments *arguments) {
  (void)ctx, (void)arguments;
  int count;
  const bd_preset *models = bd_presets(&count);
  printf("models:\n");
  for (int i = 0; i < count; i++)
    printf("  %-18s%s\n", models[i].name, models[i].summary);
  const bd_cluster_preset *clusters = bd_cluster_presets(&count);
  printf("\nclusters (use as NAME:NODESxDEVICES):\n");
  for (int i = 0; i < count; i++)
    printf("  %-18s%s\n", clusters[i].name, clusters[i].summary);
  return BD_OK;
}

static const bd_option options[] = {{0}};
const bd_command bd_command_presets = {
    .name = "presets",
    .summary = "list the models and clusters known by name",
    .options = options,
    .run = run,
};
