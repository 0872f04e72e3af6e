// A number that tells whether the bytes of a file are those that were written: XXH64 with seed 0
// (Collet, xxHash fast digest algorithm, specification 0.2.0).
#ifndef BD_RT_DIGEST_H
#define BD_RT_DIGEST_H
#include <stddef.h>
#include <stdint.h>

enum { BD_RT_DIGEST_BLOCK = 32 };

typedef struct bd_rt_digest {
  uint64_t lanes[4], bytes;
  unsigned char rest[BD_RT_DIGEST_BLOCK]; // of a block that is not whole yet
} bd_rt_digest;

void bd_rt_digest_start(bd_rt_digest *digest);
void bd_rt_digest_add(bd_rt_digest *digest, const void *data, size_t bytes);
// Of all bytes so far; more may follow.
uint64_t bd_rt_digest_value(const bd_rt_digest *digest);
#endif
