// CBC's library, loaded when it is first asked for: it brings OpenBLAS along, which starts threads
// of its own in every process that links it.
#ifndef BD_PLANNER_SOLVER_CBC_LIBRARY_H
#define BD_PLANNER_SOLVER_CBC_LIBRARY_H
#include "planner/solver/backend.h"
#include <coin/Cbc_C_Interface.h>

#define BD_CBC_FUNCTIONS(X)                                                                        \
  X(newModel)                                                                                      \
  X(deleteModel)                                                                                   \
  X(setLogLevel)                                                                                   \
  X(loadProblem)                                                                                   \
  X(setObjSense)                                                                                   \
  X(setInteger)                                                                                    \
  X(setParameter)                                                                                  \
  X(setMaximumSeconds)                                                                             \
  X(setMaximumNodes)                                                                               \
  X(setAllowableGap)                                                                               \
  X(setAllowableFractionGap)                                                                       \
  X(setCutoff)                                                                                     \
  X(solve)                                                                                         \
  X(status)                                                                                        \
  X(secondaryStatus)                                                                               \
  X(isProvenOptimal)                                                                               \
  X(isProvenInfeasible)                                                                            \
  X(getObjValue)                                                                                   \
  X(getBestPossibleObjValue)                                                                       \
  X(getColSolution)

// The functions of CBC's C interface, each under its name there without `Cbc_`.
typedef struct bd_cbc {
#define BD_CBC_MEMBER(name) __typeof__(&Cbc_##name) name;
  BD_CBC_FUNCTIONS(BD_CBC_MEMBER)
#undef BD_CBC_MEMBER
} bd_cbc;

// `*out_cbc` is valid until the process ends. BD_EXTERNAL where the library that braid was
// configured with cannot be loaded. Safe from several threads.
BD_NODISCARD bd_status bd_cbc_load(bd_ctx *ctx, const bd_cbc **out_cbc);
#endif
