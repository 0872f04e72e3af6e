// Published runs of Megatron-LM against what braid predicts for the same configurations, and
// against the plans that it finds itself for the same model, batch and devices. Prices are those of
// one preset; nothing is taken from the table.
//   megatron TABLE.csv CLUSTER FOLDER [plans | faster]
// FOLDER is for the models' configurations. Prints a table in Markdown. With `plans` it searches,
// too, under the recomputation of all and freely; with `faster` only until its plan in hand is no
// slower, which it stays however long a search goes on. Exit status 1: a mean error above 8 %, one
// above 15 %, a formula more than 3 % off its replay, or a plan of ours that is slower.
#include "tests/bench/megatron.h"
#include "frontend/frontend.h"
#include "ir/base/file.h"
#include "ir/pass.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCE = 2048, VOCABULARY = 51200 };

// Which plans of ours are looked for.
typedef enum plans { NO_PLANS, BEST_PLANS, FASTER_PLANS } plans;

static const double mean_limit = 0.08, worst_limit = 0.15, formula_limit = 0.03;

// Fields of a line, in place; an empty one is "".
static int split_line(char *line, char **fields, int most) {
  int count = 0;
  line[strcspn(line, "\r\n")] = 0;
  for (char *at = line; count < most; at++) {
    fields[count++] = at;
    at += strcspn(at, ",");
    if (!*at) break;
    *at = 0;
  }
  return count;
}

static bool parse_row(char *line, published_run *out) {
  char *field[12];
  if (split_line(line, field, 12) != 12) return false;
  *out = (published_run){.name = field[0],
                         .heads = atoi(field[2]),
                         .hidden = atoi(field[3]),
                         .layers = atoi(field[4]),
                         .tensor = atoi(field[5]),
                         .pipeline = atoi(field[6]),
                         .micro_batch = atoi(field[7]),
                         .global_batch = atoi(field[8]),
                         .gpus = atoi(field[10]),
                         .tflops = atof(field[11])};
  int data = out->gpus / (out->tensor * out->pipeline), chunk = atoi(field[9]);
  out->data = data;
  out->chunks = chunk ? out->layers / (out->pipeline * chunk) : 1;
  return out->heads > 0 && out->micro_batch > 0 && out->global_batch > 0 && data > 0 &&
         out->layers % (out->pipeline * out->chunks) == 0;
}

// A GPT as a folder that braid reads; then its training module in 16 bits.
static bd_status load_model(bd_ctx *ctx, const char *folder, const published_run *run,
                            const bd_module **out_train) {
  bd_module *graph, *train;
  bd_model_options options = {0};
  const char *path = bd_path_join(ctx, folder, run->name);
  const char *config =
      bd_intern_f(ctx,
                  "{\"model_type\": \"gpt2\", \"n_layer\": %d, \"n_embd\": %d, \"n_head\": %d, "
                  "\"n_positions\": %d, \"vocab_size\": %d, \"activation_function\": \"gelu_new\", "
                  "\"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1}\n",
                  run->layers, run->hidden, run->heads, SEQUENCE, VOCABULARY);
  BD_TRY(bd_folder_make(ctx, path));
  BD_TRY(bd_file_write(ctx, bd_path_join(ctx, path, "config.json"), config, strlen(config)));
  BD_TRY(bd_model_load(ctx, path, &options, &graph));
  BD_TRY(bd_pass_run_list(ctx, "canonicalize,cse,dce", NULL, stderr, graph, &graph));
  BD_TRY(bd_pass_run_list(ctx, "autodiff,precision", NULL, stderr, graph, &train));
  *out_train = train;
  return BD_OK;
}

// The paper's count, recomputation included (Narayanan et al., SC 2021, equation 3).
static double tflops(const published_run *run, double seconds) {
  double s = SEQUENCE, h = run->hidden, l = run->layers;
  double flops =
      96 * run->global_batch * s * l * h * h * (1 + s / (6 * h) + VOCABULARY / (16 * l * h));
  return flops / seconds / run->gpus / 1e12;
}

// What a search is to beat, and the word that it has.
typedef struct target {
  double seconds;
  volatile sig_atomic_t beaten;
} target;

static void look_at_plan(void *user, const bd_plan_progress *progress) {
  target *t = user;
  if (progress->step_seconds <= t->seconds) t->beaten = 1;
}

// Ends with the first plan of at most `enough_seconds`.
static bd_status search(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                        const published_run *run, int recompute, double enough_seconds,
                        bd_plan *out) {
  target target = {.seconds = enough_seconds};
  bd_plan_request request = {.model = run->name,
                             .target = "cuda",
                             .optimizer = "adamw",
                             .precision = BD_BF16,
                             .global_batch = run->global_batch,
                             .sequence = SEQUENCE,
                             .limit_seconds = 60,
                             .stop = &target.beaten,
                             .progress = look_at_plan,
                             .progress_user = &target,
                             .schedule = -1,
                             .zero = -1,
                             .recompute = recompute};
  return bd_plan_search(ctx, train, cluster, &request, out);
}

typedef struct totals {
  int rows, slower;
  double error, worst, formula; // sum and greatest of errors; greatest of the formula's
} totals;

// Columns of a plan: its seconds, its shape. Returns whether it is slower than what was published.
static bool print_plan(const bd_plan *plan, double published) {
  printf(" %.2f | %d x (", plan->step_seconds, plan->stages);
  for (int axis = 0; axis < plan->mesh.axes; axis++)
    printf("%s%d", axis ? ", " : "", plan->mesh.size[axis]);
  printf("), %lld | %.1f %% |", (long long)plan->micro_batch, 100 * plan->gap);
  return plan->step_seconds > published;
}

static bd_status compare_plans(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                               const published_run *run, plans plans, double seconds,
                               bool *out_slower) {
  bd_plan same, free;
  double enough = plans == FASTER_PLANS ? seconds : 0;
  BD_TRY(search(ctx, train, cluster, run, 1, enough, &same));
  BD_TRY(search(ctx, train, cluster, run, -1, enough, &free));
  *out_slower = print_plan(&same, seconds);
  *out_slower |= print_plan(&free, seconds);
  return BD_OK;
}

static bd_status compare(bd_ctx *ctx, const char *preset, const char *folder,
                         const published_run *run, plans plans, totals *total) {
  const bd_module *train;
  bd_cluster cluster;
  published_times times;
  bool slower = false;
  BD_TRY(load_model(ctx, folder, run, &train));
  BD_TRY(bd_cluster_load(ctx, bd_intern_f(ctx, "%s:%dx8", preset, run->gpus / 8), &cluster));
  BD_TRY(published_predict(ctx, train, &cluster, run, &times));
  double seconds = times.replayed_seconds, predicted = tflops(run, seconds),
         error = predicted / run->tflops - 1;
  printf("| %s | %d | %d x (%d, %d), %d", run->name, run->gpus, run->pipeline, run->data,
         run->tensor, run->micro_batch * run->data);
  if (run->chunks > 1) printf(", %d chunks", run->chunks);
  printf(" | %.0f | %.0f | %+.1f %% | %.2f | %.2f |", run->tflops, predicted, 100 * error,
         times.formula_seconds, seconds);
  if (plans) BD_TRY(compare_plans(ctx, train, &cluster, run, plans, seconds, &slower));
  printf("\n");
  fflush(stdout);
  total->rows++;
  total->slower += slower;
  total->error += fabs(error);
  total->worst = fmax(total->worst, fabs(error));
  total->formula = fmax(total->formula, fabs(times.formula_seconds / seconds - 1));
  return BD_OK;
}

static void print_head(plans plans) {
  printf("| model | GPUs | stages x (data, tensor), micro-batch | TFLOP/s published | predicted | "
         "error | step s | replayed s |%s\n|---|---|---|---|---|---|---|---|%s\n",
         plans ? " ours, all recomputed: s | plan | gap | ours: s | plan | gap |" : "",
         plans ? "---|---|---|---|---|---|" : "");
}

// What the rows come to; the exit status.
static int finish(const totals *t, plans plans) {
  if (t->rows == 0) {
    fprintf(stderr, "megatron: no row to compare\n");
    return 2;
  }
  double mean = t->error / t->rows;
  printf("\nmean error %.1f %%, worst %.1f %%; formula and replay within %.1f %%\n", 100 * mean,
         100 * t->worst, 100 * t->formula);
  if (plans) printf("rows with a plan slower than published: %d\n", t->slower);
  return mean > mean_limit || t->worst > worst_limit || t->formula > formula_limit || t->slower > 0;
}

// One line of the table, in a context of its own.
static bool do_row(char *line, char **argv, plans plans, totals *total) {
  published_run run;
  if (!parse_row(line, &run)) return false;
  bd_ctx *ctx = bd_ctx_create();
  if (!ctx) return false;
  bd_status status = compare(ctx, argv[2], argv[3], &run, plans, total);
  bd_diags_print(ctx, stderr, false);
  bd_ctx_destroy(ctx);
  return status == BD_OK;
}

int main(int argc, char **argv) {
  plans plans = argc != 5                        ? NO_PLANS
                : strcmp(argv[4], "plans") == 0  ? BEST_PLANS
                : strcmp(argv[4], "faster") == 0 ? FASTER_PLANS
                                                 : NO_PLANS;
  if (argc != 4 && plans == NO_PLANS) {
    fprintf(stderr, "usage: megatron TABLE.csv CLUSTER FOLDER [plans | faster]\n");
    return 2;
  }
  char line[512];
  totals total = {0};
  FILE *table = fopen(argv[1], "r");
  bool good = table && fgets(line, sizeof line, table);
  if (good) print_head(plans);
  while (good && fgets(line, sizeof line, table))
    good = do_row(line, argv, plans, &total);
  if (table) fclose(table);
  if (!good) {
    fprintf(stderr, "megatron: %s cannot be read, or a row of it fails\n", argv[1]);
    return 2;
  }
  return finish(&total, plans);
}
