#ifdef BRAID_CBC
#include "planner/solver/cbc_library.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t loading = PTHREAD_ONCE_INIT;
static bd_cbc loaded;
static bool sound = true;
static char trouble[256]; // the loader's words

static void *take(void *found) {
  if (!found && sound) snprintf(trouble, sizeof trouble, "%s", dlerror());
  sound = sound && found;
  return found;
}

static void load(void) {
  void *library = take(dlopen(BRAID_CBC, RTLD_NOW | RTLD_LOCAL)), *found;
#define LOAD(name)                                                                                 \
  found = library ? take(dlsym(library, "Cbc_" #name)) : NULL;                                     \
  memcpy(&loaded.name, &found, sizeof found);
  BD_CBC_FUNCTIONS(LOAD)
#undef LOAD
}

bd_status bd_cbc_load(bd_ctx *ctx, const bd_cbc **out_cbc) {
  pthread_once(&loading, load);
  *out_cbc = &loaded;
  if (sound) return BD_OK;
  return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE,
                 "CBC, with which braid was configured, cannot be loaded: %s; install it again, or "
                 "leave --solver cbc out",
                 trouble);
}
#endif
