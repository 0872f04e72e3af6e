#include "runtime/checkpoint/digest.h"

#include <string.h>

#define PRIME_1 UINT64_C(0x9E3779B185EBCA87)
#define PRIME_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define PRIME_3 UINT64_C(0x165667B19E3779F9)
#define PRIME_4 UINT64_C(0x85EBCA77C2B2AE63)
#define PRIME_5 UINT64_C(0x27D4EB2F165667C5)

static uint64_t turn(uint64_t word, int bits) {
  return word << bits | word >> (64 - bits);
}

static uint64_t little(const unsigned char *at, int bytes) {
  uint64_t word = 0;
  for (int i = bytes - 1; i >= 0; i--)
    word = word << 8 | at[i];
  return word;
}

static uint64_t mix(uint64_t lane, uint64_t word) {
  return turn(lane + word * PRIME_2, 31) * PRIME_1;
}

static void add_block(bd_rt_digest *digest, const unsigned char *at) {
  for (int i = 0; i < 4; i++)
    digest->lanes[i] = mix(digest->lanes[i], little(at + 8 * i, 8));
}

void bd_rt_digest_start(bd_rt_digest *digest) {
  *digest = (bd_rt_digest){.lanes = {PRIME_1 + PRIME_2, PRIME_2, 0, -PRIME_1}};
}

void bd_rt_digest_add(bd_rt_digest *digest, const void *data, size_t bytes) {
  const unsigned char *at = data;
  const size_t held = digest->bytes % BD_RT_DIGEST_BLOCK, wanted = BD_RT_DIGEST_BLOCK - held;
  digest->bytes += bytes;
  if (held > 0) {
    const size_t taken = bytes < wanted ? bytes : wanted;
    memcpy(digest->rest + held, at, taken);
    at += taken, bytes -= taken;
    if (taken < wanted) return;
    add_block(digest, digest->rest);
  }
  for (; bytes >= BD_RT_DIGEST_BLOCK; at += BD_RT_DIGEST_BLOCK, bytes -= BD_RT_DIGEST_BLOCK)
    add_block(digest, at);
  if (bytes > 0) memcpy(digest->rest, at, bytes);
}

static uint64_t join_lanes(const uint64_t *lanes) {
  uint64_t word = turn(lanes[0], 1) + turn(lanes[1], 7) + turn(lanes[2], 12) + turn(lanes[3], 18);
  for (int i = 0; i < 4; i++)
    word = (word ^ mix(0, lanes[i])) * PRIME_1 + PRIME_4;
  return word;
}

uint64_t bd_rt_digest_value(const bd_rt_digest *digest) {
  const unsigned char *at = digest->rest;
  size_t left = digest->bytes % BD_RT_DIGEST_BLOCK;
  uint64_t word = digest->bytes < BD_RT_DIGEST_BLOCK ? PRIME_5 : join_lanes(digest->lanes);
  word += digest->bytes;
  for (; left >= 8; at += 8, left -= 8)
    word = turn(word ^ mix(0, little(at, 8)), 27) * PRIME_1 + PRIME_4;
  if (left >= 4) {
    word = turn(word ^ little(at, 4) * PRIME_1, 23) * PRIME_2 + PRIME_3;
    at += 4, left -= 4;
  }
  for (; left > 0; at++, left--)
    word = turn(word ^ *at * PRIME_5, 11) * PRIME_1;
  word = (word ^ word >> 33) * PRIME_2;
  word = (word ^ word >> 29) * PRIME_3;
  return word ^ word >> 32;
}
