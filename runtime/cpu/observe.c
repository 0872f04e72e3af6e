// What a CPU rank tells of its time: every call has done its work when it returns.
#include "runtime/cpu/rt.h"

#include <time.h>

int bd_rt_stamps_open(bd_rt *rt) {
  (void)rt;
  return 0;
}

void bd_rt_stamps_close(bd_rt *rt) {
  (void)rt;
}

void bd_rt_stamp(bd_rt *rt, int stamp, void *queue) {
  struct timespec now;
  (void)queue;
  clock_gettime(CLOCK_MONOTONIC, &now);
  rt->device->stamps[stamp] = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void bd_rt_stamps_read(bd_rt *rt, int count, double *seconds) {
  for (int i = 0; i < count; i++)
    seconds[i] = rt->device->stamps[i] - rt->device->stamps[0];
}

void bd_rt_annotate(bd_rt *rt, int what, int64_t number) {
  (void)rt, (void)what, (void)number;
}

void bd_rt_annotate_end(bd_rt *rt) {
  (void)rt;
}

int bd_rt_sense(const bd_rt *rt, bd_rt_sensors *out) {
  (void)rt, (void)out;
  return 0;
}

int bd_rt_look_at_memory(const bd_rt *rt, bd_rt_memory *out) {
  (void)rt, (void)out;
  return 0;
}
