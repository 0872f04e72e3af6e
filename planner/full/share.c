#include "planner/full/share.h"
#include <math.h>
#include <string.h>

int64_t bd_share_count(const bd_kinds *kinds) {
  int64_t count = 1;
  for (int k = 0; k < kinds->count; k++) {
    if (count > INT32_MAX) return INT64_MAX;
    count *= kinds->calls[k] + 1;
  }
  return count;
}

void bd_share_next(const bd_kinds *kinds, int *share) {
  for (int k = 0; k < kinds->count; k++) {
    if (share[k]++ < kinds->calls[k]) return;
    share[k] = 0;
  }
}

// The number of a share of one layer.
static int64_t number_of(const bd_kinds *kinds, int kind) {
  int64_t number = 1;
  for (int k = 0; k < kind; k++)
    number *= kinds->calls[k] + 1;
  return number;
}

bool *bd_share_ends(bd_ctx *ctx, const bd_kinds *kinds, int layers, const int *kind_of,
                    int chunks) {
  int64_t shares = bd_share_count(kinds), last = 0;
  bool *out = BD_NEW_ARRAY(ctx->arena, bool, shares);
  int *share = BD_NEW_ARRAY(ctx->arena, int, kinds->count);
  int ends = kind_of[layers - 1], begins = kind_of[0];
  out[0] = out[shares - 1] = true;
  for (int i = layers - 1; i >= 0 && chunks == 1; i--)
    out[last += number_of(kinds, kind_of[i])] = true;
  for (int64_t x = 0; x < shares && chunks > 1; x++, bd_share_next(kinds, share))
    out[x] = out[x] || (share[ends] > 0 && share[begins] < kinds->calls[begins]);
  return out;
}

bool *bd_share_tied(bd_ctx *ctx, const bd_kinds *kinds, int first_kind, int last_kind) {
  int64_t shares = bd_share_count(kinds);
  bool *out = BD_NEW_ARRAY(ctx->arena, bool, shares);
  int *share = BD_NEW_ARRAY(ctx->arena, int, kinds->count);
  for (int64_t x = 0; x < shares; x++, bd_share_next(kinds, share))
    out[x] = share[first_kind] == kinds->calls[first_kind] ||
             share[last_kind] == kinds->calls[last_kind];
  return out;
}

double bd_share_tapes(bd_schedule schedule, int behind, int most_behind, int least_stages,
                      int chunks, int micro_batches) {
  double least = INFINITY;
  for (int after = behind; after <= most_behind; after++) {
    int stages = least_stages > after + 1 ? least_stages : after + 1;
    bd_schedule_hold hold =
        bd_schedule_held(schedule, stages - 1 - after, stages, chunks, micro_batches);
    least = fmin(least, (double)(hold.tapes + hold.weight_inputs) / chunks);
  }
  return least;
}

// Prices for so many tapes, mixed from two levels.
typedef struct mixed {
  int kinds, count;
  double *price, *least, *bytes;
} mixed;

// How many prices of two levels there are; from there on the last one is repeated.
static int count_prices(const bd_share_prices *p, int low, int high) {
  const double *a = &p->price[low * p->count], *b = &p->price[high * p->count];
  int count = p->count;
  while (count > 1 && a[count - 1] == a[count - 2] && b[count - 1] == b[count - 2])
    count--;
  return count;
}

static mixed mix(bd_ctx *ctx, const bd_share_prices *p, double tapes) {
  int low = 0, kinds = p->kinds;
  mixed out = {kinds, p->count, BD_NEW_ARRAY(ctx->arena, double, p->count),
               BD_NEW_ARRAY(ctx->arena, double, p->count *kinds),
               BD_NEW_ARRAY(ctx->arena, double, kinds)};
  while (low + 1 < p->levels && ldexp(1, low + 1) <= tapes)
    low++;
  int high = low + 1 < p->levels ? low + 1 : low;
  out.count = count_prices(p, low, high);
  double over = high > low ? tapes - ldexp(1, low) : 0, under = ldexp(1, low) - over;
  for (int k = 0; k < kinds; k++)
    out.bytes[k] =
        (under * p->bytes[low * kinds + k] + over * p->bytes[high * kinds + k]) / (under + over);
  for (int i = 0; i < out.count; i++) {
    int a = low * p->count + i, b = high * p->count + i;
    // So weighed, what a tape costs is `tapes` times what a state of as many bytes does.
    double of_low = p->price[b] * under, of_high = p->price[a] * over;
    double share = of_low + of_high > 0 ? of_low / (of_low + of_high) : 1;
    out.price[i] = share * p->price[a] + (1 - share) * p->price[b];
    for (int k = 0; k < kinds; k++)
      out.least[i * kinds + k] =
          share * p->least[a * kinds + k] + (share < 1 ? (1 - share) * p->least[b * kinds + k] : 0);
  }
  return out;
}

// What a stage holds whatever its layers choose.
static double fixed_bytes(const bd_share_prices *p, const int *share) {
  double workspace = 0, bytes = 0;
  for (int k = 0; k < p->kinds; k++)
    if (share[k]) workspace = fmax(workspace, p->workspace[k]);
  for (int w = 0; w < p->weights; w++) {
    int uses = 0;
    for (int k = 0; k < p->kinds; k++)
      uses += share[k] * p->uses[w * p->kinds + k];
    if (uses) bytes += p->once[w] + uses * p->each[w];
  }
  return bytes + workspace;
}

void bd_share_floor(bd_ctx *ctx, const bd_kinds *kinds, const bd_share_prices *p, double tapes,
                    double cap_bytes, const double *least, double limit, double *seconds) {
  int64_t shares = bd_share_count(kinds);
  mixed at = mix(ctx, p, tapes);
  int *share = BD_NEW_ARRAY(ctx->arena, int, kinds->count);
  for (int64_t x = 0; x < shares; x++, bd_share_next(kinds, share)) {
    if (least[x] >= limit) continue;
    double most = 0, fixed = fixed_bytes(p, share), bytes = fixed;
    for (int k = 0; k < kinds->count; k++)
      bytes += share[k] * at.bytes[k];
    if (bytes > cap_bytes) continue;
    for (int i = 0; i < at.count; i++) {
      double priced = at.price[i] * (fixed - cap_bytes);
      for (int k = 0; k < kinds->count; k++)
        priced += share[k] * at.least[i * at.kinds + k];
      most = fmax(most, priced);
    }
    seconds[x] = fmin(seconds[x], most);
  }
}
