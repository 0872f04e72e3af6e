// Megatron's data sets: tokens of each width are read, and an index that contradicts itself or its
// tokens is refused with what is wrong. Exit 0: all as it must be.
#include "runtime/data.h"
#include "runtime/options.h"
#include "tests/runtime/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOKENS = 12, INDEX_BYTES = 34 + 3 * (4 + 8) + 3 * 8 };
static char folder[] = "/tmp/braid_megatron_XXXXXX";
static char index_path[sizeof folder + 8], tokens_path[sizeof folder + 8];

static void put(unsigned char *at, int bytes, uint64_t value) {
  for (int b = 0; b < bytes; b++)
    at[b] = (unsigned char)(value >> (8 * b));
}

static void write_file(const char *path, const void *data, size_t bytes) {
  FILE *const file = fopen(path, "w");
  if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

// Three sequences of 5, 0 and 7 tokens 7, 8, 9, .. in two documents.
static void write_set(int type, int token_bytes, unsigned char *index) {
  static const int lengths[] = {5, 0, 7}, starts[] = {0, 5, 5}, documents[] = {0, 2, 3};
  unsigned char tokens[8 * TOKENS];
  memset(index, 0, INDEX_BYTES);
  memcpy(index, "MMIDIDX", 7);
  put(index + 9, 8, 1);
  index[17] = (unsigned char)type;
  put(index + 18, 8, 3);
  put(index + 26, 8, 3);
  for (int i = 0; i < 3; i++) {
    put(index + 34 + 4 * i, 4, (uint64_t)lengths[i]);
    put(index + 46 + 8 * i, 8, (uint64_t)(starts[i] * token_bytes));
    put(index + 70 + 8 * i, 8, (uint64_t)documents[i]);
  }
  for (int i = 0; i < TOKENS; i++)
    put(tokens + i * token_bytes, token_bytes, (uint64_t)(7 + i));
  write_file(index_path, index, INDEX_BYTES);
  write_file(tokens_path, tokens, (size_t)(TOKENS * token_bytes));
}

static int open_set(const char *path, int tokenizer, bd_rt_data *data, char *message, size_t room) {
  const bd_rt_program program = {.vocabulary = 100, .sequence = 4};
  message[0] = 0;
  return bd_rt_data_open(&program, path, tokenizer, 1, data, message, room);
}

static void check_width(int type, int token_bytes) {
  unsigned char index[INDEX_BYTES];
  char message[512];
  int32_t tokens[TOKENS];
  bd_rt_data data;
  write_set(type, token_bytes, index);
  for (int i = 0; i < 2; i++) {
    if (open_set(i ? tokens_path : index_path, BD_RT_TOKENS_BY_NAME, &data, message,
                 sizeof message)) {
      check_true(message, 0);
      continue;
    }
    check_true("all tokens are read",
               data.count == TOKENS && !bd_rt_data_tokens(&data, 0, TOKENS, tokens));
    for (int t = 0; t < TOKENS; t++)
      check_true("tokens are as they were written", tokens[t] == 7 + t);
    bd_rt_data_close(&data);
  }
}

static void expect(const char *words, const char *path, int tokenizer) {
  char message[512];
  bd_rt_data data;
  const int status = open_set(path, tokenizer, &data, message, sizeof message);
  const int good = status == BD_RT_EXIT_DATA && strstr(message, words) && data.fd < 0;
  if (!good) fprintf(stderr, "status %d: \"%s\"\n", status, message);
  check_true(words, good);
}

// A number of the index is another one.
static const struct spoiled {
  int at, bytes;
  uint64_t value;
  const char *words;
} spoiled[] = {
    {0, 1, 'T', "does not begin as Megatron's indexes do"},
    {9, 8, 2, "it is of version 2, not 1"},
    {17, 1, 7, "its type 7 is none that tokens have"},
    {17, 1, 200, "its type 200 is none that tokens have"},
    {18, 8, 4, "are not those of 4 sequences and 3 ends of documents"},
    {18, 8, UINT64_MAX, "are not those of 18446744073709551615 sequences"},
    {18, 8, UINT64_C(0x1555555555555558), "are not those of 1537228672809129304 sequences"},
    {26, 8, UINT64_C(1) << 61 | 3, "and 2305843009213693955 ends of documents"},
    {34, 4, UINT32_MAX, "sequence 0 has -1 tokens, which the 24 bytes of tokens do not hold"},
    {34, 4, 13, "sequence 0 has 13 tokens"},
    {42, 4, INT32_MAX, "sequence 2 has 2147483647 tokens"},
    {42, 4, 6, "its sequences end at byte 22 of the 24 bytes of tokens"},
    {46, 8, 2, "sequence 0 begins at byte 2, not where the one before ends, at 0"},
    {62, 8, UINT64_MAX, "sequence 2 begins at byte -1"},
    {70, 8, UINT64_MAX, "document 0 ends at sequence -1"},
    {78, 8, 4, "document 1 ends at sequence 4 of 3"},
    {86, 8, 1, "document 2 ends at sequence 1 of 3, after one that ends at 2"},
};

static void check_refusals(void) {
  unsigned char index[INDEX_BYTES + 3];
  for (size_t i = 0; i < sizeof spoiled / sizeof spoiled[0]; i++) {
    write_set(8, 2, index);
    put(index + spoiled[i].at, spoiled[i].bytes, spoiled[i].value);
    write_file(index_path, index, INDEX_BYTES);
    expect(spoiled[i].words, index_path, BD_RT_TOKENS_BY_NAME);
  }
  write_set(8, 2, index);
  write_file(index_path, index, 33);
  expect("does not begin as Megatron's indexes do", index_path, BD_RT_TOKENS_BY_NAME);
  write_file(index_path, index, INDEX_BYTES - 1);
  expect("its 93 bytes are not those of", tokens_path, BD_RT_TOKENS_BY_NAME);
  write_file(index_path, index, INDEX_BYTES + 3);
  expect("it has modes of sequences", index_path, BD_RT_TOKENS_BY_NAME);
  write_set(8, 2, index);
  write_file(tokens_path, index, 23);
  expect("sequence 2 has 7 tokens, which the 23 bytes", index_path, BD_RT_TOKENS_BY_NAME);
  write_file(tokens_path, index, 24);
  expect("is not below the model's vocabulary of 100", index_path, BD_RT_TOKENS_BY_NAME);
  write_set(5, 8, index);
  write_file(tokens_path, index, 96);
  expect("token 4294967295 at position 0", index_path, BD_RT_TOKENS_BY_NAME);
  unlink(tokens_path);
  expect(".bin: No such file", index_path, BD_RT_TOKENS_BY_NAME);
  unlink(index_path);
  write_file(tokens_path, index, 23);
  expect("23 bytes are no whole number of 2-byte tokens", tokens_path, BD_RT_TOKENS_BY_NAME);
  expect(".idx: No such file", index_path, BD_RT_TOKENS_BY_NAME);
  write_set(8, 2, index);
  expect("d.bin: token 524295 at position 0", tokens_path, BD_RT_TOKENS_U32);
}

int main(void) {
  if (!mkdtemp(folder)) abort();
  snprintf(index_path, sizeof index_path, "%s/d.idx", folder);
  snprintf(tokens_path, sizeof tokens_path, "%s/d.bin", folder);
  check_width(1, 1);
  check_width(8, 2);
  check_width(4, 4);
  check_width(5, 8);
  check_refusals();
  unlink(index_path);
  unlink(tokens_path);
  rmdir(folder);
  return check_result(0);
}
