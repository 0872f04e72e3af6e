#include "ir/rope.h"
#include <math.h>

int64_t bd_rope_turned(const bd_op *op, int64_t width) {
  return bd_op_int(op, "turned", width);
}

int64_t bd_rope_first(const bd_op *op, int64_t width) {
  return bd_op_int(op, "last", 0) ? width - bd_rope_turned(op, width) : 0;
}

int64_t bd_rope_apart(const bd_op *op, int64_t turned) {
  return bd_op_int(op, "interleaved", 0) ? 1 : turned / 2;
}

int64_t bd_rope_step(const bd_op *op) {
  return bd_op_int(op, "interleaved", 0) ? 2 : 1;
}

// The share of a frequency that is divided by the factor grows from pair to pair (YaRN, Peng et al.
// 2023, section 3.2).
static double ramped(const bd_op *op, int64_t pair, double plain, double factor) {
  double begin = bd_op_real(op, "ramp_low", 0), end = bd_op_real(op, "ramp_high", 1);
  double share = fmin(fmax(((double)pair - begin) / (end - begin), 0), 1);
  return plain / factor * share + plain * (1 - share);
}

double bd_rope_amplitude(const bd_op *op) {
  return bd_op_real(op, "amplitude", 1);
}

double bd_rope_frequency(const bd_op *op, int64_t pair, int64_t turned) {
  double plain = pow(bd_op_real(op, "theta", 10000), -2 * (double)pair / (double)turned);
  double factor = bd_op_real(op, "factor", 0);
  const bd_attr *divisors = bd_op_find_attr(op, "divisors");
  if (divisors) return plain / divisors->reals[pair];
  if (factor == 0) return plain;
  if (bd_op_find_attr(op, "ramp_high")) return ramped(op, pair, plain, factor);
  double low = bd_op_real(op, "low_freq_factor", 1), high = bd_op_real(op, "high_freq_factor", 4);
  double turns = bd_op_real(op, "original_positions", 8192) * plain / (2 * M_PI);
  if (turns > high) return plain;
  if (turns < low) return plain / factor;
  double smooth = (turns - low) / (high - low);
  return (1 - smooth) * plain / factor + smooth * plain;
}
