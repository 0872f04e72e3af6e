// "precisions" of a cluster file: what a device computes with.
#ifndef BD_IR_CLUSTER_PRECISION_H
#define BD_IR_CLUSTER_PRECISION_H
#include "ir/base/json.h"
#include "ir/cluster.h"

// Reads the member of a kind, if it is there, to `*out_lacks`, as in bd_device_kind. Errors:
// BD_INVALID at its place.
BD_NODISCARD bd_status bd_cluster_precisions_read(bd_ctx *ctx, const bd_json *json,
                                                  unsigned *out_lacks);
// ["fp32"]
void bd_cluster_precisions_print(unsigned lacks, bd_text *text);
#endif
