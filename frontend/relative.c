#include "frontend/relative.h"
#include <math.h>

enum { MOST_ROWS = 256 }; // as many i32 as a constant has

static int64_t buckets_of_direction(const bd_relative *r) {
  return r->causal ? r->buckets : r->buckets / 2;
}

// The bucket of a distance (Raffel et al. 2020, section 2.1): half of them are exact, the others
// grow with its logarithm. In f32 as the published models compute it, whose roundings decide at the
// borders.
static int64_t bucket_of(const bd_relative *r, int64_t distance) {
  int64_t count = buckets_of_direction(r), exact = count / 2;
  if (distance < exact) return distance;
  float span = (float)log((double)r->distance / (double)exact);
  float part = logf((float)distance / (float)exact) / span * (float)(count - exact);
  int64_t bucket = exact + (int64_t)part;
  return bucket < count - 1 ? bucket : count - 1;
}

// The distance from which on all have one bucket, or the longest there is.
static int64_t farthest(const bd_relative *r) {
  int64_t most = r->sequence - 1 < r->distance ? r->sequence - 1 : r->distance;
  int64_t last = bucket_of(r, most), found = most < MOST_ROWS ? most : MOST_ROWS;
  while (found > 0 && bucket_of(r, found - 1) == last)
    --found;
  return found;
}

static int64_t rows_of(const bd_relative *r) {
  return r->causal ? farthest(r) + 1 : 2 * farthest(r) + 1;
}

bool bd_relative_is_sound(const bd_relative *r) {
  int64_t exact = buckets_of_direction(r) / 2;
  return exact >= 1 && r->distance > exact;
}

bool bd_relative_is_supported(const bd_relative *r) {
  return rows_of(r) <= MOST_ROWS;
}

// The table's rows for each place of a key before and behind its query, the farthest before first.
bd_id bd_relative_biases(bd_graph_build *g, const bd_relative *r, bd_id table) {
  int64_t buckets[MOST_ROWS], rows = rows_of(r), far = farthest(r);
  for (int64_t i = 0; i < rows; ++i)
    buckets[i] = i <= far ? bucket_of(r, far - i) : buckets_of_direction(r) + bucket_of(r, i - far);
  bd_attr attrs[] = {bd_attr_string(g->ctx, "dtype", bd_dtype_name(BD_I32)),
                     bd_attr_ints(g->ctx, "dims", 1, &rows),
                     bd_attr_ints(g->ctx, "values", (int)rows, buckets)};
  bd_id ids = bd_graph_op(g, "buckets", BD_OP_CONSTANT, 0, NULL, 3, attrs);
  bd_id spread = bd_graph_binary(g, "spread", BD_OP_EMBED, table, ids);
  return bd_graph_permute(g, "biases", spread, "ab->ba");
}
