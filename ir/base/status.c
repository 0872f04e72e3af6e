#include "ir/base/status.h"

const char *bd_status_name(bd_status status) {
  switch (status) {
  case BD_OK:
    return "ok";
  case BD_INVALID:
    return "invalid";
  case BD_UNSUPPORTED:
    return "unsupported";
  case BD_INFEASIBLE:
    return "infeasible";
  case BD_EXHAUSTED:
    return "exhausted";
  case BD_EXTERNAL:
    return "external";
  case BD_INTERNAL:
    return "internal";
  }
  return "unknown";
}

int bd_status_exit_code(bd_status status) {
  switch (status) {
  case BD_OK:
    return 0;
  case BD_INVALID:
  case BD_UNSUPPORTED:
    return 1;
  case BD_INFEASIBLE:
    return 3;
  case BD_EXTERNAL:
    return 4;
  case BD_EXHAUSTED:
  case BD_INTERNAL:
    return 5;
  }
  return 5;
}
