#include "ir/interpret.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct vector {
  uint32_t counter[4], key[2], words[4];
} vector;

// The known answers of Random123 for philox4x32 with ten rounds.
static const vector vectors[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void philox_known_answers(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
    uint32_t words[4];
    bd_philox(vectors[i].counter, vectors[i].key, words);
    for (int k = 0; k < 4; k++)
      assert_int_equal(words[k], vectors[i].words[k]);
  }
}

static void uniform_is_packed_as_documented(void **state) {
  (void)state;
  uint64_t seed = 0x1122334455667788, step = 77, sample = 0x123456, block = 0xABC12345678;
  const uint32_t counter[4] = {0x12345678, 0x0ABCu | (9u << 16), 0x123456, 77};
  const uint32_t key[2] = {0x55667788u ^ (3u * 0x9E3779B9u), 0x11223344};
  uint32_t words[4];
  bd_philox(counter, key, words);
  for (uint64_t i = 0; i < 4; i++) {
    float expected = (float)(words[i] >> 8) * 0x1p-24f;
    assert_true(bd_random_uniform(seed, step, 3, 9, sample, 4 * block + i) == expected);
  }
}

// From blocks and words to queries and keys: every pair has a word of its own.
static void scores_share_blocks_as_documented(void **state) {
  (void)state;
  enum { HEADS = 3, QUERIES = 37, KEYS = 70, ROWS = 24, COLUMNS = 40 };
  int pairs = 0;
  int64_t element = 0;
  for (int64_t head = 0; head < HEADS; head++)
    for (int64_t row = 0; row < ROWS; row++)
      for (int64_t column = 0; column < COLUMNS; column++)
        for (int64_t word = 0; word < 4; word++, element++) {
          int64_t query = row + row / 8 * 8 + (word >= 2 ? 8 : 0);
          int64_t key = column + column / 8 * 8 + (word % 2 ? 8 : 0);
          if (query >= QUERIES || key >= KEYS) continue;
          assert_int_equal(bd_random_score(head, query, key, QUERIES, KEYS), element);
          pairs++;
        }
  assert_int_equal(pairs, HEADS * QUERIES * KEYS);
}

static void uniform_fills_the_unit_interval(void **state) {
  (void)state;
  enum { COUNT = 20000 };
  double sum = 0, least = 1, greatest = 0;
  for (uint64_t i = 0; i < COUNT; i++) {
    double u = bd_random_uniform(5, 6, 7, 8, 9, i);
    sum += u;
    least = u < least ? u : least;
    greatest = u > greatest ? u : greatest;
  }
  assert_true(least >= 0 && least < 1e-3 && greatest < 1 && greatest > 1 - 1e-3);
  assert_true(sum / COUNT > 0.49 && sum / COUNT < 0.51);
}

static void every_coordinate_matters(void **state) {
  (void)state;
  float base = bd_random_uniform(1, 2, 3, 4, 5, 6);
  assert_true(base != bd_random_uniform(2, 2, 3, 4, 5, 6));
  assert_true(base != bd_random_uniform(1 + (1ull << 32), 2, 3, 4, 5, 6));
  assert_true(base != bd_random_uniform(1, 3, 3, 4, 5, 6));
  assert_true(base != bd_random_uniform(1, 2, 4, 4, 5, 6));
  assert_true(base != bd_random_uniform(1, 2, 3, 5, 5, 6));
  assert_true(base != bd_random_uniform(1, 2, 3, 4, 6, 6));
  assert_true(base != bd_random_uniform(1, 2, 3, 4, 5, 7));
  assert_true(base != bd_random_uniform(1, 2, 3, 4, 5, 6 + (1ull << 34)));
  assert_true(base != bd_random_uniform(1, 2, 3, 4, 5, 6 + (1ull << 49)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(philox_known_answers),
      cmocka_unit_test(uniform_is_packed_as_documented),
      cmocka_unit_test(scores_share_blocks_as_documented),
      cmocka_unit_test(uniform_fills_the_unit_interval),
      cmocka_unit_test(every_coordinate_matters),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
