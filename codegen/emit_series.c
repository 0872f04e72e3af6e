// Integers that a loop steps through.
#include "codegen/emit.h"

static bool is_even(const int64_t *values, int count) {
  for (int i = 2; i < count; ++i)
    if (values[i] - values[i - 1] != values[1] - values[0]) return false;
  return true;
}

static void add_table(bd_emitter *e, bd_text *text, const int64_t *values, int count) {
  bd_text_addf(e->tables, "static const int64_t table%d[] = {", e->table_count);
  for (int i = 0; i < count; ++i)
    bd_text_addf(e->tables, "%s%lld", i ? ", " : "", (long long)values[i]);
  bd_text_add(e->tables, "};\n");
  bd_text_addf(text, "table%d[i]", e->table_count++);
}

void bd_emit_series(bd_emitter *emitter, bd_text *text, const int64_t *values, int count) {
  if (!is_even(values, count)) {
    add_table(emitter, text, values, count);
    return;
  }
  int64_t stride = count > 1 ? values[1] - values[0] : 0;
  bd_text_addf(text, "%lld", (long long)values[0]);
  int64_t step = stride < 0 ? -stride : stride;
  if (stride) bd_text_addf(text, " %c i", stride < 0 ? '-' : '+');
  if (step > 1) bd_text_addf(text, " * %lld", (long long)step);
}
