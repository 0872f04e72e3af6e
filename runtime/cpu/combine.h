// Sums, and what else is combined, of pieces in the order of the ranks that they are from.
#ifndef BD_RT_CPU_COMBINE_H
#define BD_RT_CPU_COMBINE_H
#include <stdint.h>

// Adds up `size` pieces of `count` elements that lie `stride` apart, into the first. Halves are
// wide from the first piece to the last, and rounded once.
void bd_rt_combine_pieces(int dtype, int combiner, int size, int64_t stride, int64_t count,
                          void *pieces);
#endif
