// Allocations between guard pages. A released one stays unreachable for ever, so that its use is
// found.
#include "tests/device/fake/device.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, HUGE_PAGE = 1 << 21, ALIGNMENT = 256, MAX_ALLOCATIONS = 1024, CANARY = 0xC5 };

typedef struct allocation {
  char *at, *pages; // pages: between the guards
  size_t bytes, page_bytes;
  bd_fake_kind kind;
  int live;
} allocation;

static int is_of(const allocation *a, bd_fake_kind kind) {
  return a->kind == kind || (kind == BD_FAKE_DEVICE && a->kind == BD_FAKE_SHARED);
}

static allocation allocations[MAX_ALLOCATIONS];
static int allocation_count, device_open;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const allocation *find(const void *at) {
  const char *const byte = at;
  for (int i = 0; i < allocation_count; i++) {
    const allocation *const a = &allocations[i];
    if (byte >= a->pages - PAGE && byte < a->pages + a->page_bytes + PAGE) return a;
  }
  return NULL;
}

// Says what a wild access meant; the rest of the handling is the system's.
static void tell_access(int number, siginfo_t *info, void *context) {
  (void)context;
  const allocation *const a = find(info->si_addr);
  if (a) {
    const long long offset = (char *)info->si_addr - a->at;
    if (!a->live)
      bd_fake_fault("memory", "byte %lld of an allocation that was freed is used", offset);
    if (offset >= 0 && offset < (long long)a->bytes)
      bd_fake_fault("memory", "the host touches byte %lld of device memory", offset);
    bd_fake_fault("memory", "byte %lld of an allocation of %zu bytes is used", offset, a->bytes);
  }
  signal(number, SIG_DFL);
}

static void watch_accesses(void) {
  static char stack[1 << 16];
  sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
  struct sigaction action = {.sa_sigaction = tell_access, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigaction(SIGSEGV, &action, NULL);
}

static void count_allocation(const allocation *a, int64_t sign) {
  if (a->kind == BD_FAKE_PINNED) {
    bd_fake_count.pinned_bytes += sign * (int64_t)a->bytes;
    return;
  }
  bd_fake_count.device_allocations += sign > 0;
  bd_fake_count.device_bytes += sign * (int64_t)a->bytes;
  if (bd_fake_count.device_bytes > bd_fake_count.device_peak_bytes)
    bd_fake_count.device_peak_bytes = bd_fake_count.device_bytes;
}

// Pages between guards. They start where huge pages do: what is protected often should be few.
static char *reserve(size_t bytes) {
  char *const map = mmap(NULL, bytes + HUGE_PAGE + 2 * PAGE, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return NULL;
  char *const pages = map + (bd_fake_round_up((intptr_t)map + PAGE, HUGE_PAGE) - (intptr_t)map);
  if (mprotect(pages, bytes, PROT_READ | PROT_WRITE)) return NULL;
  madvise(pages, bytes, MADV_HUGEPAGE);
  return pages;
}

void *bd_fake_allocate(bd_fake_kind kind, size_t bytes) {
  pthread_mutex_lock(&lock);
  if (!allocation_count) watch_accesses();
  if (allocation_count == MAX_ALLOCATIONS)
    bd_fake_fault("memory", "more than %d allocations", MAX_ALLOCATIONS);
  allocation *const a = &allocations[allocation_count];
  *a = (allocation){.bytes = bytes, .kind = kind, .live = 1};
  a->page_bytes = (size_t)bd_fake_round_up((int64_t)bytes, PAGE);
  a->pages = reserve(a->page_bytes);
  if (!a->pages) {
    pthread_mutex_unlock(&lock);
    return NULL;
  }
  allocation_count++;
  a->at = a->pages + a->page_bytes -
          bd_fake_round_up((int64_t)bytes, kind == BD_FAKE_SHARED ? PAGE : ALIGNMENT);
  memset(a->pages, CANARY, (size_t)(a->at - a->pages));
  memset(a->at, 0xFF, bytes);
  memset(a->at + bytes, CANARY, (size_t)(a->pages + a->page_bytes - (a->at + bytes)));
  if (kind != BD_FAKE_PINNED && !device_open) mprotect(a->pages, a->page_bytes, PROT_NONE);
  count_allocation(a, 1);
  pthread_mutex_unlock(&lock);
  return a->at;
}

// Bytes of the first and last page that are nobody's.
static void check_canary(const char *call, const allocation *a, const char *from, const char *to) {
  for (const char *byte = from; byte < to; byte++)
    if (*(const unsigned char *)byte != CANARY)
      bd_fake_fault(call, "byte %lld of an allocation of %zu bytes was written",
                    (long long)(byte - a->at), a->bytes);
}

void bd_fake_release(const char *call, bd_fake_kind kind, void *at) {
  pthread_mutex_lock(&lock);
  allocation *const a = (allocation *)find(at);
  if (!a || a->at != at || a->kind != kind)
    bd_fake_fault(call, "%p is not the start of an allocation of this kind", at);
  if (!a->live) bd_fake_fault(call, "an allocation of %zu bytes is freed twice", a->bytes);
  mprotect(a->pages, a->page_bytes, PROT_READ);
  check_canary(call, a, a->pages, a->at);
  check_canary(call, a, a->at + a->bytes, a->pages + a->page_bytes);
  mprotect(a->pages, a->page_bytes, PROT_NONE);
  madvise(a->pages, a->page_bytes, MADV_DONTNEED);
  a->live = 0;
  count_allocation(a, -1);
  pthread_mutex_unlock(&lock);
}

int bd_fake_holds(bd_fake_kind kind, const void *at, size_t bytes) {
  pthread_mutex_lock(&lock);
  const allocation *const a = find(at);
  const int holds = a && a->live && is_of(a, kind) && (const char *)at >= a->at &&
                    (size_t)((const char *)at - a->at) <= a->bytes &&
                    bytes <= a->bytes - (size_t)((const char *)at - a->at);
  pthread_mutex_unlock(&lock);
  return holds;
}

const void *bd_fake_range(const void *at, size_t *out_bytes, int *out_shared) {
  const void *start = NULL;
  pthread_mutex_lock(&lock);
  const allocation *const a = find(at);
  if (a && a->live && a->kind != BD_FAKE_PINNED) {
    start = a->at;
    *out_bytes = a->bytes;
    *out_shared = a->kind == BD_FAKE_SHARED;
  }
  pthread_mutex_unlock(&lock);
  return start;
}

void bd_fake_check(const char *call, const char *name, const void *at, size_t bytes, size_t align) {
  if (align && (uintptr_t)at % align)
    bd_fake_fault(call, "%s at %p is not aligned to %zu bytes", name, at, align);
  if (bd_fake_holds(BD_FAKE_DEVICE, at, bytes) || bd_fake_holds(BD_FAKE_PINNED, at, bytes)) return;
  const allocation *const a = find(at);
  if (!a) bd_fake_fault(call, "%s at %p is no memory of the device", name, at);
  if (!a->live) bd_fake_fault(call, "%s lies in memory that was freed", name);
  bd_fake_fault(call, "%s: bytes %lld to %lld of an allocation of %zu", name,
                (long long)((const char *)at - a->at),
                (long long)((const char *)at - a->at) + (long long)bytes, a->bytes);
}

int bd_fake_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  const char *const x = a, *const y = b;
  return a_bytes && b_bytes && x < y + b_bytes && y < x + a_bytes;
}

uint64_t bd_fake_sum_of(const void *at, size_t bytes) {
  const unsigned char *const data = at;
  uint64_t sum = 0x9E3779B97F4A7C15u;
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t word;
    memcpy(&word, data + i, sizeof word);
    sum = (sum ^ word) * 0xD6E8FEB86659FD93u;
    sum ^= sum >> 32;
  }
  for (; i < bytes; i++)
    sum = (sum ^ data[i]) * 0xD6E8FEB86659FD93u;
  return sum;
}

void bd_fake_protect(int open) {
  pthread_mutex_lock(&lock);
  device_open = open;
  for (int i = 0; i < allocation_count; i++)
    if (allocations[i].live && allocations[i].kind != BD_FAKE_PINNED)
      mprotect(allocations[i].pages, allocations[i].page_bytes,
               open ? PROT_READ | PROT_WRITE : PROT_NONE);
  pthread_mutex_unlock(&lock);
}
