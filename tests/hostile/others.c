// Hostile names outside of models: plans, clusters, the command line, paths.
#include "ir/base/file.h"
#include "tests/hostile/hostile.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ANY = BD_STATUS(0) | BD_STATUS(1), REFUSED = BD_STATUS(1) | BD_STATUS(2) };

static void compile_plan(bd_hostile *test, const char *emit) {
  if (BD_RUN(test, ANY, "out", "compile", "model.json", "--cluster", "cpu:1x1", "--plan",
             "plan.json", "--emit", emit, "-o", "out"))
    return;
  if (strcmp(emit, "c") == 0) bd_hostile_check_sources(test, "out");
  bd_hostile_discard("out");
}

static void try_plan(bd_hostile *test, const bd_json *good, int count, const bd_site *sites,
                     const char *text) {
  bd_hostile_write_json(test, "plan.json", good, count, sites, text);
  BD_RUN(test, ANY, NULL, "explain", "plan.json");
  compile_plan(test, "c");
}

// The name of a strategy, and the layer that uses it.
static void find_strategy(bd_hostile *test, const bd_json *good, bd_site out_sites[2]) {
  const bd_json *strategies = bd_json_find(good, "strategies");
  const bd_json *layers = bd_json_find(good, "layers");
  if (!strategies || !strategies->count || !layers || !layers->count)
    bd_hostile_fail(test, "the plan has no layers", "");
  out_sites[0] = (bd_site){bd_json_find(&strategies->items[0], "name"), -1, ""};
  out_sites[1] = (bd_site){bd_json_find(&layers->items[0], "strategy"), -1, ""};
  if (!out_sites[0].value || !out_sites[1].value)
    bd_hostile_fail(test, "the plan names no strategy", "");
}

void bd_hostile_plans(bd_hostile *test) {
  BD_RUN(test, BD_STATUS(0), "good.json", "compile", "model.json", BD_CLUSTER, "--emit", "plan",
         "-o", "good.json");
  const bd_json *good = bd_hostile_read(test, "./good.json");
  bd_payload payloads[BD_PAYLOADS];
  bd_hostile_payloads(test->ctx, payloads);
  const bd_site *sites;
  const int count = bd_hostile_sites(test, good, &sites);
  bd_site strategy[2];
  find_strategy(test, good, strategy);
  for (int p = 0; p < BD_PAYLOADS; p++) {
    test->kind = payloads[p].name;
    for (int s = 0; s < count; s++) {
      test->place =
          bd_intern_f(test->ctx, "plan %s%s", sites[s].key < 0 ? "" : "key of ", sites[s].place);
      try_plan(test, good, 1, &sites[s], payloads[p].text);
    }
    test->place = "a strategy that layers use";
    try_plan(test, good, 2, strategy, payloads[p].text);
    compile_plan(test, "sharded");
    compile_plan(test, "exec");
  }
  bd_hostile_discard("plan.json");
  bd_hostile_discard("good.json");
}

static void compile_for_cluster(bd_hostile *test, unsigned statuses) {
  BD_RUN(test, statuses, "out", "compile", "model.json", "--cluster", "cluster.json",
         "--global-batch", "4", "--emit", "plan", "-o", "out");
  bd_hostile_discard("out");
}

void bd_hostile_clusters(bd_hostile *test) {
  const bd_json *cluster = bd_hostile_read(test, "cluster.json");
  bd_payload payloads[BD_PAYLOADS];
  bd_hostile_payloads(test->ctx, payloads);
  const bd_site *sites;
  const int count = bd_hostile_sites(test, cluster, &sites);
  bd_hostile_write_json(test, "cluster.json", cluster, 0, NULL, NULL);
  compile_for_cluster(test, BD_STATUS(0));
  for (int s = 0; s < count; s++)
    for (int p = 0; p < BD_PAYLOADS; p++) {
      test->kind = payloads[p].name;
      test->place =
          bd_intern_f(test->ctx, "cluster %s%s", sites[s].key < 0 ? "" : "key of ", sites[s].place);
      bd_hostile_write_json(test, "cluster.json", cluster, 1, &sites[s], payloads[p].text);
      compile_for_cluster(test, ANY);
    }
  bd_hostile_discard("cluster.json");
}

static void try_words(bd_hostile *test, const char *text) {
  static const char *const options[] = {"--mesh",       "--target", "--schedule", "--emit",
                                        "--memory-cap", "--seq",    "--plan",     "--pin",
                                        "--forbid",     "--partial"};
  bd_ctx *ctx = test->ctx;
  // An operand without letters is one that is missing.
  const unsigned missing = BD_STATUS(2), none = *text ? BD_STATUS(1) : missing;
  test->place = "a model's path";
  BD_RUN(test, *text ? ANY : missing, NULL, "compile", "--emit", "graph", BD_CLUSTER, "--", text);
  test->place = "a preset";
  BD_RUN(test, REFUSED, NULL, "compile", "model.json", bd_intern_f(ctx, "--cluster=%s", text),
         "--global-batch", "4");
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    test->place = options[i];
    BD_RUN(test, REFUSED, NULL, "compile", "model.json", BD_CLUSTER,
           bd_intern_f(ctx, "%s=%s", options[i], text), "-o", "out");
  }
  test->place = "a command";
  BD_RUN(test, BD_STATUS(2), NULL, text);
  test->place = "an option";
  BD_RUN(test, BD_STATUS(2), NULL, "compile", "model.json", bd_intern_f(ctx, "--x%s", text));
  test->place = "a plan's path";
  BD_RUN(test, none, NULL, "explain", "--", text);
  test->place = "pins of explain";
  BD_RUN(test, *text ? ANY : missing, NULL, "explain", "--why", text, "--", text);
  test->place = "a plan to compare with";
  BD_RUN(test, none, NULL, "diff", "--", text, text);
  BD_RUN(test, none, NULL, "diff", "--", "model.json", text);
  test->place = "a pass";
  BD_RUN(test, REFUSED, NULL, "opt", bd_intern_f(ctx, "--passes=%s", text), "--", text);
  test->place = "a program's path";
  BD_RUN(test, none, NULL, "run", "--", text);
}

// `tools` is a PATH with a compiler that only writes its output.
static void try_outputs(bd_hostile *test, const char *text, const char *tools) {
  char *name = strdup(text);
  if (!name) bd_hostile_fail(test, "out of memory", "");
  for (char *slash; (slash = strchr(name, '/'));)
    *slash = '_';
  const char *path = bd_intern_f(test->ctx, "./%s", name);
  const char *outside = bd_intern_z(test->ctx, getenv("PATH"));
  test->place = "a folder to write";
  setenv("PATH", tools, 1);
  BD_RUN(test, BD_STATUS(0), name, "compile", "model.json", BD_CLUSTER, "-o", path);
  setenv("PATH", outside, 1);
  bd_hostile_check_sources(test, path);
  bd_hostile_discard(path);
  test->place = "a file to write";
  BD_RUN(test, BD_STATUS(0), name, "compile", "model.json", BD_CLUSTER, "--emit", "plan", "-o",
         path);
  if (!bd_file_exists(path)) bd_hostile_fail(test, "there is no plan", path);
  bd_hostile_discard(path);
  free(name);
}

// A PATH that finds, before anything else, `script` under the name of a tool.
static const char *tools_with(bd_hostile *test, const char *name, const char *script) {
  const char *bin = bd_path_join(test->ctx, test->root, "bin");
  const char *tool = bd_path_join(test->ctx, bin, name);
  if (mkdir(bin, 0700) != 0 && errno != EEXIST)
    bd_hostile_fail(test, "a folder cannot be made", strerror(errno));
  bd_hostile_write(test, tool, script);
  if (chmod(tool, 0700) != 0) bd_hostile_fail(test, "chmod", strerror(errno));
  return bd_intern_f(test->ctx, "%s:%s", bin, getenv("PATH"));
}

void bd_hostile_arguments(bd_hostile *test) {
  const char *tools =
      tools_with(test, "mpicc", "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\n: >\"$2\"\n");
  bd_payload payloads[BD_PAYLOADS];
  bd_hostile_payloads(test->ctx, payloads);
  for (int p = 0; p < BD_PAYLOADS; p++) {
    const char *text = payloads[p].text;
    test->kind = payloads[p].name;
    try_words(test, text);
    if (*text && strlen(text) < 255) try_outputs(test, text, tools);
  }
}

// The first text comes to the program through mpirun; the others without it, which waits for
// seconds when a rank fails.
void bd_hostile_programs(bd_hostile *test) {
  static const char *const inputs[] = {"--data", "--init", "--tokenizer"};
  static const char *const outputs[] = {"--save", "--metrics", "--report"};
  static const char direct[] = "#!/bin/sh\nwhile [ \"${1##*/}\" != train ]; do shift; done\n"
                               "exec env OMPI_MCA_ess_singleton_isolated=1 \"$@\"\n";
  const unsigned refused = BD_STATUS(2) | BD_STATUS(4) | BD_STATUS(12);
  BD_RUN(test, BD_STATUS(0), "program", "compile", "model.json", BD_CLUSTER, "-o", "program");
  const char *outside = bd_intern_z(test->ctx, getenv("PATH"));
  const char *tools = tools_with(test, "mpirun", direct);
  bd_payload payloads[BD_PAYLOADS];
  bd_hostile_payloads(test->ctx, payloads);
  for (int p = 0; p < BD_PAYLOADS; p++) {
    const char *text = payloads[p].text;
    test->kind = payloads[p].name;
    setenv("PATH", p == 0 ? outside : tools, 1);
    if (strlen(text) > 255) continue;
    for (int i = 0; i < 3; i++) {
      test->place = inputs[i];
      BD_RUN(test, refused, NULL, "run", "program", "--steps", i == 0 ? "1" : "0",
             bd_intern_f(test->ctx, "%s=%s", inputs[i], text));
      test->place = outputs[i];
      BD_RUN(test, refused, NULL, "run", "program", "--steps", "0",
             bd_intern_f(test->ctx, "%s=none/none/%s", outputs[i], text));
    }
  }
  setenv("PATH", outside, 1);
  bd_hostile_discard("program");
}
