// Private to `braid tune`: choices of degrees are planned by the rates in hand, the most promising
// is built and measured, rates are fitted to what it took, and so on.
#ifndef BD_CLI_TUNE_H
#define BD_CLI_TUNE_H
#include "cli/compile.h"
#include "cli/difference.h"
#include "cli/trial.h"

// Pins beside those of the user, and the best plan under them.
typedef struct bd_choice {
  const char *pins; // "dp=2,tp=2,pp=1,mb=4"; "open": none
  bd_plan_request request;
  bd_constraints constraints;
  bool open;
  bool parts; // products may be in parts, of which the cluster tells nothing (bd_tune_rates)
  bool found; // `plan` is one
  int rates;  // by which it was searched; see bd_tuning
  const char *program; // what the plan makes a program of, as text; equal programs, equal pointers
  double seconds;      // of a step, by the rates in hand
  bd_plan plan;
} bd_choice;

// A plan that was tried.
typedef struct bd_measurement {
  const char *pins, *program;
  bool parts;
  bd_plan plan;
  double predicted_seconds; // by the rates that it was chosen by
  double told_seconds;      // by the rates in hand
  double seconds;           // measured; INFINITY: it failed
  const char *failure;      // why; NULL: it did not
  const char *products;     // GPUs: the file of --tune, as text; NULL: none
  int twin;                 // the last trial before it of which the table says the same; -1: none
  int unlike_count;
  bd_choice_row *unlike; // in what its plan differs from that one's, "a" of which is the twin's
} bd_measurement;

enum { BD_MOST_CHOICES_TUNED = 512, BD_MOST_TRIALS = 64 };

typedef struct bd_tuning {
  bd_ctx *ctx;
  const bd_compilation *job;
  const bd_module *train;
  const char *folder;  // of trials
  const char *earlier; // that of the last one, whose runtime the next takes; NULL: there is none
  int64_t tries;
  double doubt;    // predictions are off by this factor at times, in either direction
  double deadline; // no trial begins after it; INFINITY: any time
  bd_training training;
  bd_cluster cluster; // with the rates in hand
  int rates;          // how often they were fitted
  bd_fit_rows rows;
  int choice_count, measured_count;
  int best;                           // measured; -1: none
  volatile sig_atomic_t told_to_stop; // for searches
  bd_choice choices[BD_MOST_CHOICES_TUNED];
  bd_measurement measured[BD_MOST_TRIALS];
} bd_tuning;

// tune_choices.c

// The rates in hand. `parts`: with a guess at what products keep of their rate while a collective
// runs beside them, where the cluster has none: that NCCL takes 16 of 132 multiprocessors.
#define BD_TUNE_PRODUCT_BESIDE 0.88
bd_cluster bd_tune_rates(const bd_tuning *tuning, bool parts);

// The open choice first, then every way to share the devices between data, tensor and pipeline
// parallelism that the user's pins allow, each searched roughly. Errors: those of bd_plan_search
// for the open one.
BD_NODISCARD bd_status bd_tune_list_choices(bd_tuning *tuning);
// Adds those with half and twice the micro-batch of a plan that was measured, as it was chosen; and
// on GPUs whose cluster does not say what products do beside collectives, with products in parts.
BD_NODISCARD bd_status bd_tune_add_neighbours(bd_tuning *tuning, const bd_measurement *of);
// What all choices take by new rates; the open one is searched again.
BD_NODISCARD bd_status bd_tune_tell_again(bd_tuning *tuning);
// The choice that promises most of those whose plan was not tried, searched by the rates in hand;
// -1: there is none.
BD_NODISCARD bd_status bd_tune_pick(bd_tuning *tuning, int *out_choice);

// Fails with the signal that told braid to stop.
bd_status bd_tune_stopped(bd_ctx *ctx, int stopped_by);

// tune_measure.c

// Builds and trains the plan of a choice, adds what was measured, and fits the rates to it. A
// program that fails, or whose metrics or profile are damaged or not there, is a measurement.
// Errors: BD_EXTERNAL when it cannot be built or started, or is told to stop; BD_INVALID where it
// refuses the user's data.
BD_NODISCARD bd_status bd_tune_measure(bd_tuning *tuning, const bd_choice *choice);

// tune_unlike.c

// Finds the twin of a measurement that is about to be added, and in what their plans differ, which
// lives in ctx->arena. Errors: BD_EXHAUSTED.
BD_NODISCARD bd_status bd_tune_find_unlike(bd_tuning *tuning, bd_measurement *measurement);

// tune_bound.c

// Bound, gap and search of the plan that is kept, whose step is predicted by the rates in hand:
// those of the open choice where it was searched by the same rates and found a plan. Else there is
// no bound, 0, and the words of the search say so.
void bd_tune_bound(bd_ctx *ctx, const bd_tuning *tuning, const bd_measurement *kept, bd_plan *plan);

// tune_told.c

// What was tried, for people; and as JSON (docs/tune.md).
void bd_tune_page(const bd_tuning *tuning, bd_text *text);
void bd_tune_json(const bd_tuning *tuning, bd_text *text);
#endif
