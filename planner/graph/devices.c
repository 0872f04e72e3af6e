#include "planner/graph/devices.h"
#include "ir/base/number.h"

static void measure_groups(bd_devices *out) {
  const bd_layers_problem *problem = out->problem;
  for (int g = 0; g < problem->group_count; g++) {
    out->unit[g] = 0;
    for (int n = 0; n < problem->mode_count; n++)
      if (problem->modes[n].group == g)
        out->unit[g] = (int)bd_common_divisor(problem->modes[n].devices, out->unit[g]);
    out->span[g] = out->unit[g] ? problem->groups[g].count / out->unit[g] : 0;
  }
}

void bd_devices_open(const bd_layers_problem *problem, bd_devices_kind instead, int most,
                     bd_devices *out) {
  *out = (bd_devices){.problem = problem, .kind = BD_DEVICES_EXACT};
  measure_groups(out);
  int64_t states = 1, sum = 0;
  for (int g = 0; g < problem->group_count; g++) {
    out->stride[g] = (int)states;
    states *= out->span[g] + 1;
    if (states > most) states = (int64_t)most + 1;
    sum += out->span[g] + 1;
  }
  out->states = (int)states;
  if (states <= most) return;
  out->kind = instead == BD_DEVICES_ORDERED && sum > most ? BD_DEVICES_IGNORED : instead;
  out->states = out->kind == BD_DEVICES_ORDERED ? (int)sum : 1;
  int first = 0;
  for (int g = 0; g < problem->group_count; g++) {
    out->stride[g] = first;
    first += out->span[g] + 1;
  }
}

int bd_devices_take(const bd_devices *devices, int state, int mode) {
  const bd_layers_mode *of = &devices->problem->modes[mode];
  int g = of->group;
  if (devices->kind == BD_DEVICES_IGNORED) return 0;
  int wanted = of->devices / devices->unit[g];
  if (devices->kind == BD_DEVICES_ORDERED) {
    int used = state - devices->stride[g];
    if (used > devices->span[g]) return -1;
    if (used < 0) used = 0;
    return used + wanted <= devices->span[g] ? devices->stride[g] + used + wanted : -1;
  }
  int used = state / devices->stride[g] % (devices->span[g] + 1);
  return used + wanted <= devices->span[g] ? state + wanted * devices->stride[g] : -1;
}

bool bd_devices_spare(const bd_devices *devices, int a, int b) {
  for (int g = 0; g < devices->problem->group_count; g++) {
    int radix = devices->span[g] + 1;
    if (a % radix > b % radix) return false;
    a /= radix;
    b /= radix;
  }
  return true;
}
