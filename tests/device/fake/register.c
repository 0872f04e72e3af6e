// Memory that NCCL gives, and what communicators are told of it.
#include "tests/device/fake/device.h"
#include "tests/device/fake/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW_NCCL = 22703, SILENT_WINDOW_NCCL = 22803, COPY_ENGINE_NCCL = 22803 };

// BD_FAKE_HOST: the name of this process's machine.
int gethostname(char *name, size_t bytes) {
  const char *const set = getenv("BD_FAKE_HOST");
  if (!set) {
    FILE *const file = fopen("/proc/sys/kernel/hostname", "r");
    const int got = file && fgets(name, (int)bytes, file);
    if (file) fclose(file);
    if (!got) return -1;
    name[strcspn(name, "\n")] = 0;
    return 0;
  }
  snprintf(name, bytes, "%s", set);
  return 0;
}

static int version(void) {
  int number;
  ncclGetVersion(&number);
  return number;
}

// BD_FAKE_NCCL_MEMORY=0: the driver gives NCCL none.
ncclResult_t ncclMemAlloc(void **at, size_t bytes) {
  if (!bd_fake_setting("BD_FAKE_NCCL_MEMORY", 1)) return ncclUnhandledCudaError;
  *at = bd_fake_take(__func__, BD_FAKE_SHARED, bytes);
  return *at ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *at) {
  bd_fake_drain(__func__);
  bd_fake_release(__func__, BD_FAKE_SHARED, at);
  return ncclSuccess;
}

static void check_first(const char *call, const struct ncclComm *c) {
  if (c->registered || c->window) bd_fake_fault(call, "a second time");
}

// A handle stands for memory of the device that the communicator may use until it is given back.
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *at, size_t bytes, void **handle) {
  struct ncclComm *const c = bd_fake_comm_of(__func__, comm);
  bd_fake_check(__func__, "the buffer", at, bytes, 1);
  check_first(__func__, c);
  c->registered = *handle = at;
  bd_fake_count.handles++;
  return bd_fake_end_call(c);
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle) {
  struct ncclComm *const c = bd_fake_comm_of(__func__, comm);
  if (!handle || c->registered != handle) bd_fake_fault(__func__, "%p is not registered", handle);
  c->registered = NULL;
  bd_fake_count.handles--;
  return bd_fake_end_call(c);
}

// BD_FAKE_WINDOWS=0: GPUs do not reach each other's memory, and NCCL gives no window. The window is
// written when the call is over; that it is in progress, only versions before 2.28 return.
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *at, size_t bytes, ncclWindow_t *window,
                                    int flags) {
  struct ncclComm *const c = bd_fake_comm_of(__func__, comm);
  if (version() < WINDOW_NCCL) bd_fake_fault(__func__, "this version of NCCL has no windows");
  if (flags != NCCL_WIN_COLL_SYMMETRIC) bd_fake_fault(__func__, "the window is not symmetric");
  if (!bd_fake_holds(BD_FAKE_SHARED, at, bytes))
    bd_fake_fault(__func__, "%p is not from ncclMemAlloc", at);
  if ((uintptr_t)at % NCCL_WIN_REQUIRED_ALIGNMENT)
    bd_fake_fault(__func__, "%p is not aligned to %d bytes", at, NCCL_WIN_REQUIRED_ALIGNMENT);
  check_first(__func__, c);
  *window = NULL;
  if (!bd_fake_setting("BD_FAKE_WINDOWS", 1)) return bd_fake_end_call(c);
  c->window = at;
  c->new_window = window;
  c->window_bytes = bytes;
  c->opens_window = 1;
  c->wire.shared->member[c->wire.rank].window_bytes = (int64_t)bytes;
  bd_fake_count.handles++;
  bd_fake_count.windows++;
  return version() < SILENT_WINDOW_NCCL ? ncclInProgress : ncclSuccess;
}

int bd_fake_window_is_open(struct ncclComm *comm) {
  static const char *const call = "ncclCommWindowRegister";
  const bd_fake_member *const own = &comm->wire.shared->member[comm->wire.rank];
  for (int r = 0; r < comm->wire.ranks; r++) {
    const bd_fake_member *const other = &comm->wire.shared->member[r];
    if (other->host != own->host)
      bd_fake_fault(call, "ranks %d and %d are on two machines", comm->wire.rank, r);
    if (!other->window_bytes) {
      if (bd_fake_wire_is_dead(&comm->wire, r)) comm->error = ncclRemoteError;
      return 0;
    }
    if (other->window_bytes != own->window_bytes)
      bd_fake_fault(call, "rank %d registers %lld bytes, rank %d %lld", comm->wire.rank,
                    (long long)own->window_bytes, r, (long long)other->window_bytes);
  }
  comm->opens_window = 0;
  *comm->new_window = (ncclWindow_t)comm->window;
  return 1;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  struct ncclComm *const c = bd_fake_comm_of(__func__, comm);
  if (!window || c->window != (void *)window)
    bd_fake_fault(__func__, "%p is no window", (void *)window);
  if (c->issued != c->finished) bd_fake_fault(__func__, "work is left");
  c->window = NULL;
  bd_fake_count.handles--;
  return bd_fake_end_call(c);
}

int bd_fake_wants_copy_engines(const char *call, const ncclConfig_t *config) {
  if (config->CTAPolicy == NCCL_CONFIG_UNDEF_INT) return 0;
  if (config->CTAPolicy != NCCL_CTA_POLICY_ZERO || version() < COPY_ENGINE_NCCL)
    bd_fake_fault(call, "no policy %d in this version of NCCL", config->CTAPolicy);
  return 1;
}
