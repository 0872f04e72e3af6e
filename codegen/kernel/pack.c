// GPU: how many elements in a row a thread takes at once, so that it moves 16 bytes.
#include "codegen/kernel/gen.h"

enum {
  MOST = 8,
  LONG = 512, // elements, from which a row may have a head and a tail that are not packed
};

static bool is_along(const bd_access *access, int loop) {
  return access->base && access->stride[loop];
}

// As many elements of the narrowest access as make so many bytes.
static int widest_pack(int loop, int bytes, int count, const bd_access *const *accesses) {
  int narrowest = BD_GEN_ALIGNED;
  for (int i = 0; i < count; i++)
    if (is_along(accesses[i], loop) && bd_dtype_bytes(accesses[i]->dtype) < narrowest)
      narrowest = (int)bd_dtype_bytes(accesses[i]->dtype);
  return bytes / narrowest < MOST ? bytes / narrowest : MOST;
}

// Whether a pack's addresses in an access are multiples of it where those of `like` are.
static bool lies_like(const bd_gen *g, const bd_access *access, const bd_access *like, int loop,
                      int pack) {
  int64_t bytes = pack * bd_dtype_bytes(access->dtype);
  if (bytes > BD_GEN_ALIGNED) bytes = BD_GEN_ALIGNED;
  if (access->stride[loop] != 1 || access->aligned < bytes) return false;
  for (int i = 0; i < g->loops; i++)
    if (i != loop && (access->stride[i] - like->stride[i]) % pack) return false;
  return true;
}

// Whether they are in every row.
static bool is_even(const bd_gen *g, const bd_access *access, int loop, int pack) {
  for (int i = 0; i < g->loops; i++)
    if (i != loop && access->stride[i] % pack) return false;
  return g->loop[loop].extent % pack == 0;
}

void bd_gen_pack(bd_gen *g, int loop, int bytes, int count, const bd_access *const *accesses) {
  const bd_access *first = NULL;
  int pack = g->cuda ? widest_pack(loop, bytes, count, accesses) : 1;
  for (int i = 0; i < count; i++) {
    if (!is_along(accesses[i], loop)) continue;
    first = first ? first : accesses[i];
    while (pack > 1 && !lies_like(g, accesses[i], first, loop, pack))
      pack /= 2;
  }
  while (first && pack > 1 && g->loop[loop].extent < LONG && !is_even(g, first, loop, pack))
    pack /= 2;
  g->pack = first ? pack : 1;
  g->uneven = first && pack > 1 && !is_even(g, first, loop, pack) ? first : NULL;
}

bool bd_gen_packs(const bd_gen *g, int loop, const bd_access *access, const bd_access *like) {
  return g->pack == 1 || !is_along(access, loop) || lies_like(g, access, like, loop, g->pack);
}

int bd_gen_row_threads(const bd_gen *g, int loop) {
  int threads = 1;
  while (threads < BD_GEN_LANES && (int64_t)threads * g->pack < g->loop[loop].extent)
    threads *= 2;
  return threads;
}
