// Pins and forbids as people write them: "dp=8,tp=2,recompute=none", "tp=8,pp>4".
#ifndef BD_PLANNER_CONSTRAINTS_READ_H
#define BD_PLANNER_CONSTRAINTS_READ_H
#include "planner/planner.h"

// What may be pinned, for the help and for diagnostics.
#define BD_PIN_WORDS "dp, sp, tp, pp, mesh, mb, recompute, zero, schedule"

// Adds a list of pins to a request: degrees of data (dp), sequence (sp) and tensor (tp)
// parallelism, stages (pp), mesh=AxB, samples of a micro-batch (mb), recompute=none|full, zero,
// schedule. `constraints` is what the request refers to from then on. Errors: BD_INVALID naming the
// pin, also when it is pinned already.
BD_NODISCARD bd_status bd_pins_read(bd_ctx *ctx, const char *text, bd_plan_request *request,
                                    bd_constraints *constraints);

// Adds a list of forbidden values of dp, sp, tp, pp, mb and zero, each with =, < or >; `recompute`
// alone forbids that any op runs again, `zero` alone all stages but 0. Errors as above, and when
// every stage of ZeRO is forbidden.
BD_NODISCARD bd_status bd_forbids_read(bd_ctx *ctx, const char *text, bd_plan_request *request,
                                       bd_constraints *constraints);
#endif
