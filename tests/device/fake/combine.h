// Sums and maxima of the ranks' data.
#ifndef BD_TESTS_DEVICE_COMBINE_H
#define BD_TESTS_DEVICE_COMBINE_H
#include "tests/device/fake/wire.h"

#include <nccl.h>

size_t bd_fake_dtype_bytes(const char *call, ncclDataType_t dtype);
// out = the combination, in rank order, of `count` elements from element `first` of all ranks'
// data. bf16 is combined in f32 and rounded once.
void bd_fake_combine(const char *call, const bd_fake_wire *wire, ncclDataType_t dtype,
                     ncclRedOp_t op, int64_t first, int64_t count, void *out);
#endif
