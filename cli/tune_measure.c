#include "cli/folder.h"
#include "cli/stop.h"
#include "cli/tune.h"
#include "ir/base/file.h"
#include "ir/base/json.h"
#include "runtime/braid_rt_abi.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROFILED_STEPS = 4, WARM_STEPS = 2, LEAST_COUNTED = 3 };
// Of a log: in which its last line is looked for, and how much of that is told.
enum { LAST_BYTES = 4096, MOST_WORDS_BYTES = 300 };
#define METRICS "metrics.jsonl"
#define PROFILE "profile.json"
#define PRODUCTS "products.json"
#define FILE_LIMIT_BYTES ((size_t)64 << 20)

static int order_of_seconds(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

// The median of the steps that follow those in which programs get warm.
static bd_status read_seconds(bd_ctx *ctx, const bd_tuning *t, const bd_trial *trial, double *out) {
  const char *path = bd_path_join(ctx, trial->folder, METRICS);
  double *seconds = BD_NEW_ARRAY(ctx->arena, double, t->training.steps);
  int64_t count = 0, first = t->training.steps >= WARM_STEPS + LEAST_COUNTED ? WARM_STEPS : 1;
  char *data;
  size_t bytes;
  BD_TRY(bd_file_read(ctx, path, FILE_LIMIT_BYTES, &data, &bytes));
  for (char *line = data, *end; (end = strchr(line, '\n')) && count < t->training.steps;
       line = end + 1) {
    const bd_json *json;
    BD_TRY(bd_json_parse(ctx, path, line, (size_t)(end - line), &json));
    BD_TRY(bd_json_real(ctx, json, "step_seconds", true, 0, 1e9, &seconds[count++]));
  }
  if (count <= first) return bd_fail(ctx, BD_INVALID, bd_loc_file(path), "tells of too few steps");
  count -= first;
  qsort(seconds + first, (size_t)count, sizeof *seconds, order_of_seconds);
  *out = (seconds[first + (count - 1) / 2] + seconds[first + count / 2]) / 2;
  return BD_OK;
}

// The last line that the ranks said, or how it begins.
static const char *last_words(bd_ctx *ctx, const bd_trial *trial) {
  char data[LAST_BYTES];
  size_t bytes = 0;
  FILE *log = fopen(bd_path_join(ctx, trial->folder, "log"), "r");
  if (log) {
    if (fseek(log, -LAST_BYTES, SEEK_END) != 0) rewind(log); // a shorter one
    bytes = fread(data, 1, sizeof data, log);
    fclose(log);
  }
  while (bytes > 0 && (data[bytes - 1] == '\n' || data[bytes - 1] == '\r'))
    bytes--;
  size_t start = bytes;
  while (start > 0 && data[start - 1] != '\n')
    start--;
  bd_text text = bd_text_init(ctx->arena);
  bool whole = bytes - start <= MOST_WORDS_BYTES;
  bd_text_add_printable(&text, data + start, whole ? bytes - start : MOST_WORDS_BYTES);
  if (!whole) bd_text_add(&text, " ...");
  return text.length ? text.data : "it said nothing";
}

static bd_status train(bd_tuning *t, const bd_trial *trial, const bd_training *training,
                       bd_measurement *m) {
  bd_process_end end;
  BD_TRY(bd_trial_train(t->ctx, trial, training, &end));
  if (end.stopped_by) return bd_tune_stopped(t->ctx, end.stopped_by);
  // No program that is made for this model and this batch takes them.
  if (end.exit_code == BD_RT_EXIT_DATA && bd_argument(t->job->arguments, "--data"))
    return bd_fail(t->ctx, BD_INVALID, bd_loc_file(t->training.data), "cannot be trained on: %s",
                   last_words(t->ctx, trial));
  if (end.exit_code)
    m->failure = bd_intern_f(t->ctx, "status %d: %s", end.exit_code, last_words(t->ctx, trial));
  return BD_OK;
}

// On GPUs a profile takes the graphs away that make steps fast, so it is a run of its own there.
static bd_status train_twice(bd_tuning *t, const bd_trial *trial, bd_measurement *m) {
  bool cuda = strcmp(trial->plan.target, "cuda") == 0;
  bd_training timed = t->training, profiled = t->training;
  timed.metrics = METRICS;
  profiled.profile = PROFILE;
  if (!cuda) {
    timed.profile = PROFILE;
    return train(t, trial, &timed, m);
  }
  timed.products = profiled.products = PRODUCTS;
  profiled.steps = PROFILED_STEPS;
  BD_TRY(train(t, trial, &timed, m));
  return m->failure ? BD_OK : train(t, trial, &profiled, m);
}

typedef struct fitting {
  const bd_tuning *tuning;
  bd_cluster rates;
} fitting;

// Of CPU ranks all rates are read off, of others each kind of work has a factor.
static bd_status fit_rates(bd_ctx *ctx, void *arg) {
  fitting *f = arg;
  const bd_cluster *nominal = &f->tuning->job->cluster;
  bool apart = nominal->gpu || nominal->nodes > 1;
  return (apart ? bd_fit_scales : bd_fit_rates)(ctx, &f->tuning->rows, nominal, &f->rates);
}

// Rates that are none a cluster may have are not taken.
static bd_status fit(bd_tuning *t) {
  fitting f = {.tuning = t};
  bd_ctx *child = bd_ctx_create_child(t->ctx);
  if (!child) return bd_fail(t->ctx, BD_EXHAUSTED, BD_NOWHERE, "out of memory");
  bd_status status = bd_ctx_run(child, fit_rates, &f);
  if (status != BD_OK && status != BD_INVALID) bd_ctx_merge(t->ctx, child);
  bd_ctx_destroy(child);
  if (status == BD_INVALID)
    bd_warn(t->ctx, BD_NOWHERE,
            "what trial %d took makes rates that no cluster has; plans go by those before it",
            t->measured_count + 1);
  if (status != BD_OK) return status == BD_INVALID ? BD_OK : status;
  t->cluster = f.rates;
  t->rates++;
  return BD_OK;
}

// What a trial leaves is read in a context of its own: files that are damaged, or not there, are
// the failure of the trial.
typedef struct reading {
  bd_tuning *tuning;
  const bd_trial *trial;
  bd_measurement *measurement;
  bd_fit_rows rows;
} reading;

static bd_status read_files(bd_ctx *ctx, void *arg) {
  reading *r = arg;
  const bd_cluster *nominal = &r->tuning->job->cluster;
  const char *products = bd_path_join(ctx, r->trial->folder, PRODUCTS);
  char *data;
  size_t bytes;
  BD_TRY(read_seconds(ctx, r->tuning, r->trial, &r->measurement->seconds));
  if (bd_file_exists(products)) {
    BD_TRY(bd_file_read(ctx, products, FILE_LIMIT_BYTES, &data, &bytes));
    r->measurement->products = bd_intern(ctx, data, bytes);
  }
  if (bd_cluster_is_mixed(nominal)) return BD_OK;
  return bd_trial_read_profile(ctx, r->trial, nominal, bd_path_join(ctx, r->trial->folder, PROFILE),
                               &r->rows);
}

// Why it was not to be read.
static const char *reading_failure(bd_ctx *ctx, const bd_diag *diag) {
  const char *file = diag->loc.file ? diag->loc.file : PROFILE, *slash = strrchr(file, '/');
  return bd_intern_f(ctx, "status 0, but %s: %s", slash ? slash + 1 : file, diag->message);
}

static void destroy_context(void *ctx) {
  bd_ctx_destroy(ctx);
}

static bd_status read_trial(bd_tuning *t, const bd_trial *trial, bd_measurement *m) {
  reading r = {t, trial, m, {.least_seconds = INFINITY}};
  bd_owned held;
  bd_ctx *child = bd_ctx_create_child(t->ctx);
  if (!child) return bd_fail(t->ctx, BD_EXHAUSTED, BD_NOWHERE, "out of memory");
  bd_own(t->ctx, &held, destroy_context, child);
  bd_status status = bd_ctx_run(child, read_files, &r);
  bool lacking = status == BD_EXHAUSTED;
  if (status == BD_OK)
    bd_trial_add_rows(t->ctx, &r.rows, &t->rows);
  else if (!lacking)
    m->failure = reading_failure(t->ctx, child->last_diag);
  if (m->failure) m->seconds = INFINITY;
  bd_disown(t->ctx, &held);
  bd_ctx_destroy(child);
  if (lacking) return bd_fail(t->ctx, BD_EXHAUSTED, BD_NOWHERE, "out of memory");
  return BD_OK;
}

bd_status bd_tune_measure(bd_tuning *t, const bd_choice *choice) {
  bd_measurement *m = &t->measured[t->measured_count];
  bd_build_options build = {.executable = true, .earlier = t->earlier};
  bd_trial trial;
  *m = (bd_measurement){.pins = choice->pins,
                        .program = choice->program,
                        .parts = choice->parts,
                        .plan = choice->plan,
                        .predicted_seconds = choice->seconds,
                        .told_seconds = choice->seconds,
                        .seconds = INFINITY};
  BD_TRY(bd_tune_find_unlike(t, m));
  const char *folder =
      bd_path_join(t->ctx, t->folder, bd_intern_f(t->ctx, "%d", t->measured_count));
  BD_TRY(bd_trial_build(t->ctx, t->train, &choice->plan, &build, folder, &trial));
  if (t->earlier) bd_folder_remove(t->earlier);
  t->earlier = folder;
  BD_TRY(train_twice(t, &trial, m));
  const bd_fit_rows before = t->rows;
  int rates = t->rates;
  if (!m->failure) BD_TRY(read_trial(t, &trial, m));
  if (!m->failure && !bd_cluster_is_mixed(&t->job->cluster)) BD_TRY(fit(t));
  if (t->rates == rates) t->rows = before; // nor do later rates go by what made none
  int number = t->measured_count++;
  if (!m->failure && (t->best < 0 || m->seconds < t->measured[t->best].seconds)) t->best = number;
  return BD_OK;
}
