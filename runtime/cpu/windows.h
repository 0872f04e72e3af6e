// Points of images and of the windows that lie over them.
#ifndef BD_RT_CPU_WINDOWS_H
#define BD_RT_CPU_WINDOWS_H
#include "runtime/braid_rt.h"

static inline int64_t bd_rt_points(const int64_t extents[3]) {
  return extents[0] * extents[1] * extents[2];
}
#endif
