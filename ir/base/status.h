// The outcome of every fallible function of the compiler.
#ifndef BD_IR_BASE_STATUS_H
#define BD_IR_BASE_STATUS_H

#define BD_NODISCARD __attribute__((warn_unused_result))

typedef enum bd_status {
  BD_OK = 0,
  BD_INVALID,     // the user's input is wrong
  BD_UNSUPPORTED, // the input is right, braid does not handle it
  BD_INFEASIBLE,  // no plan fits the devices
  BD_EXHAUSTED,   // memory or a stated limit ran out
  BD_EXTERNAL,    // a library or tool failed
  BD_INTERNAL,    // braid broke its own rule
} bd_status;

// Passes a failure up. The only macro that hides a return.
#define BD_TRY(expression)                                                                         \
  do {                                                                                             \
    bd_status bd_try_status = (expression);                                                        \
    if (bd_try_status != BD_OK) return bd_try_status;                                              \
  } while (0)

// The word of a status ("invalid"), for messages. Static storage.
const char *bd_status_name(bd_status status);

// The exit status of `braid` for a status: 0 ok; 1 invalid, unsupported; 3 infeasible; 4 external;
// 5 internal, exhausted. (2 is a usage error, found by the command line itself.)
int bd_status_exit_code(bd_status status);
#endif
