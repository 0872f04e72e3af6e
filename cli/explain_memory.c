#include "cli/explain.h"
#include <string.h>

// Neighbouring stages of equal bytes share a column.
enum { COLUMNS = 6 };

// Of stages that are not the fullest, so many of what they hold are shown.
enum { FEW = 3 };

typedef struct column {
  int first, last; // stages
} column;

static bool same_memory(const bd_memory *a, const bd_memory *b) {
  return a->total_bytes == b->total_bytes && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static int next_columns(const bd_plan *plan, int first, column out[COLUMNS]) {
  int count = 0;
  for (int stage = first; stage < plan->stages && count < COLUMNS; count++) {
    int last = stage;
    while (last + 1 < plan->stages &&
           same_memory(&plan->predicted[last + 1].memory, &plan->predicted[stage].memory))
      last++;
    out[count] = (column){stage, last};
    stage = last + 1;
  }
  return count;
}

static void add_padded(bd_text *text, int width, const char *word) {
  bd_text_addf(text, "%*s", width, word);
}

static void add_row(const bd_plan *plan, const column *columns, int count, const char *label,
                    int segment, bd_text *text) {
  bd_text_addf(text, "  %-12s", label);
  for (int i = 0; i < count; i++) {
    const bd_memory *memory = &plan->predicted[columns[i].first].memory;
    bd_text_addf(text, "%15lld",
                 (long long)(segment < 0 ? memory->total_bytes : memory->bytes[segment]));
  }
  bd_text_add(text, "\n");
}

static bool is_used(const bd_plan *plan, int segment) {
  for (int stage = 0; stage < plan->stages; stage++)
    if (plan->predicted[stage].memory.bytes[segment] > 0) return true;
  return false;
}

static void add_columns(const bd_plan *plan, const column *columns, int count, bd_text *text) {
  add_padded(text, -14, "");
  for (int i = 0; i < count; i++) {
    char head[48];
    if (columns[i].first == columns[i].last)
      snprintf(head, sizeof head, "stage %d", columns[i].first);
    else
      snprintf(head, sizeof head, "stages %d-%d", columns[i].first, columns[i].last);
    add_padded(text, 15, head);
  }
  bd_text_add(text, "\n");
  for (int segment = 1; segment < BD_SEGMENT_COUNT; segment++)
    if (is_used(plan, segment))
      add_row(plan, columns, count, bd_segment_name((bd_segment)segment), segment, text);
  add_row(plan, columns, count, "arena", -1, text);
  if (plan->cap_bytes <= 0) return;
  add_padded(text, -14, "  of the cap");
  for (int i = 0; i < count; i++)
    bd_text_addf(text, "%13.1f %%",
                 100 * (double)plan->predicted[columns[i].first].memory.total_bytes /
                     (double)plan->cap_bytes);
  bd_text_add(text, "\n");
}

static const char *kind_of(bd_segment segment) {
  return segment == BD_SEGMENT_WEIGHTS ? "weight, gradient, optimizer" : bd_segment_name(segment);
}

// What neighbouring stages of equal bytes hold when most of their workspace is in use: its largest
// tensors, and what they leave of the arena.
static void add_live(const bd_plan *plan, column stages, bool fullest, bd_text *text) {
  const bd_stage_details *details = &plan->details->stages[stages.first];
  const bd_memory *memory = &plan->predicted[stages.first].memory;
  if (!details->live_count) return;
  bd_text_addf(text, "live at the peak, stage%s %d", bd_plural(stages.last - stages.first + 1, "s"),
               stages.first);
  if (stages.last > stages.first) bd_text_addf(text, "-%d", stages.last);
  if (memory->slots > 1) bd_text_addf(text, ": %d tapes held", memory->slots);
  bd_text_add(text, "\n");
  int64_t rest = memory->total_bytes;
  for (int i = 0; i < details->live_count && (fullest || i < FEW); i++) {
    const bd_tenant *tenant = &details->live[i];
    bd_text_add(text, "  ");
    bd_text_add_bytes(text, tenant->bytes);
    bd_text_add(text, "  ");
    bd_explain_add_name(text, tenant->name);
    if (tenant->count > 1) bd_text_addf(text, " and %d alike", tenant->count - 1);
    bd_text_addf(text, " (%s)\n", kind_of(tenant->segment));
    rest -= tenant->bytes;
  }
  bd_text_add(text, "  ");
  bd_text_add_bytes(text, rest > 0 ? rest : 0);
  bd_text_add(text, "  all else in the arena\n");
}

// What recomputation saves and costs on the stage that it saves most on.
static void add_recompute(const bd_plan *plan, bd_text *text) {
  int most = 0;
  for (int s = 1; s < plan->stages; s++)
    if (plan->details->stages[s].recompute_bytes > plan->details->stages[most].recompute_bytes)
      most = s;
  const bd_stage_details *stage = &plan->details->stages[most];
  bd_text_add(text, "recompute   ");
  if (stage->recompute_bytes <= 0) {
    bd_text_add(text, "nothing\n");
    return;
  }
  double flops = stage->recompute_flops * bd_plan_micro_batches(plan);
  bd_text_addf(text, "on stage %d saves ", most);
  bd_text_add_bytes(text, stage->recompute_bytes);
  bd_text_addf(text, " a rank for %.4g GFLOP more a step", flops * 1e-9);
  if (flops > 0)
    bd_text_addf(text, ": %.3g bytes per flop", (double)stage->recompute_bytes / flops);
  bd_text_add(text, "\n");
}

// What lies beside the arena.
static void add_host(const bd_plan *plan, bd_text *text) {
  for (int s = 0; s < plan->stages; s++) {
    if (!plan->details->stages[s].host_bytes) continue;
    bd_text_addf(text, "offloaded   on stage %d ", s);
    bd_text_add_bytes(text, plan->details->stages[s].host_bytes);
    bd_text_add(text, " a rank, in its host's memory\n");
  }
}

void bd_explain_memory(const bd_plan *plan, bd_text *text) {
  bd_text_add(text, "\nbytes per rank");
  if (plan->cap_bytes > 0) {
    bd_text_add(text, ", of a cap of ");
    bd_text_add_bytes(text, plan->cap_bytes);
  }
  bd_text_add(text, "\n");
  column columns[COLUMNS];
  for (int first = 0; first < plan->stages;) {
    int count = next_columns(plan, first, columns);
    add_columns(plan, columns, count, text);
    first = columns[count - 1].last + 1;
  }
  if (!plan->details) return;
  add_recompute(plan, text);
  add_host(plan, text);
  for (int first = 0; first < plan->stages; first = columns[0].last + 1) {
    next_columns(plan, first, columns);
    int fullest = plan->details->fullest_stage;
    add_live(plan, columns[0], first <= fullest && fullest <= columns[0].last, text);
  }
}
