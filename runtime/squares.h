// Numbers of which the sum of squares is asked for.
#ifndef BD_RT_SQUARES_H
#define BD_RT_SQUARES_H
#include <stdint.h>

// `out`: where the sum goes, in the rank's sums.
typedef struct bd_rt_squares {
  const void *data; // of `dtype`, BD_RT_F32 or BD_RT_BF16
  int64_t count;
  double *out;
  int64_t dtype;
} bd_rt_squares;
enum { BD_RT_MOST_SQUARES = 64 }; // tensors of one call
#endif
