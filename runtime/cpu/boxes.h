// Rectangles of arrays that ranks exchange.
#ifndef BD_RT_CPU_BOXES_H
#define BD_RT_CPU_BOXES_H
#include "runtime/cpu/rt.h"

// A rectangle of a row-major array of five dimensions.
typedef struct bd_rt_box {
  int64_t dims[5], start[5], size[5];
} bd_rt_box;

// Copies between boxes of equal sizes.
void bd_rt_box_copy(int dtype, const bd_rt_box *from, const void *in, const bd_rt_box *to,
                    void *out);

// Messages of a group that are on their way; they end in bd_rt_exchange_end. At most one is sent to
// each rank, and one received from it.
typedef struct bd_rt_exchange {
  bd_rt *rt;
  const bd_rt_group *group;
  int dtype;
  int requests, types;
} bd_rt_exchange;

// Sends a box to rank `other` of the group, or receives it from there; nothing where it is empty.
void bd_rt_send_box(bd_rt_exchange *exchange, const bd_rt_box *box, const void *in, int other);
void bd_rt_receive_box(bd_rt_exchange *exchange, const bd_rt_box *box, void *out, int other);
// Receives `count` elements in a row.
void bd_rt_receive_row(bd_rt_exchange *exchange, int64_t count, void *out, int other);
void bd_rt_exchange_end(bd_rt_exchange *exchange);
#endif
