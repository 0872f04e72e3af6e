#include "runtime/megatron.h"

#include "runtime/braid_rt_abi.h"
#include "runtime/rank.h"
#include "runtime/read_at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The header: magic, version, type, how many sequences and ends of documents. Then each sequence's
// length (int32) and first byte (int64), and each document's first sequence (int64).
enum { MAGIC = 9, VERSION_AT = 9, TYPE_AT = 17, SEQUENCES_AT = 18, DOCUMENTS_AT = 26, HEADER = 34 };
enum { LENGTH_BYTES = 4, START_BYTES = 8, PIECE = 1024 };

typedef struct reader {
  int fd;
  int64_t file_bytes, tokens_bytes, sequences, documents;
  int token_bytes;
  char why[128]; // what is wrong
} reader;

#define WRONG(reader, ...) (snprintf((reader)->why, sizeof(reader)->why, __VA_ARGS__), 0)

static uint64_t number(const unsigned char *raw, int bytes) {
  uint64_t value = 0;
  for (int b = bytes - 1; b >= 0; b--)
    value = value << 8 | raw[b];
  return value;
}

static int token_bytes_of(int type) {
  static const char bytes[] = {[1] = 1, [4] = 4, [5] = 8, [8] = 2}; // uint8, int32, int64, uint16
  return type < (int)sizeof bytes ? bytes[type] : 0;
}

static int read_header(reader *r) {
  unsigned char raw[HEADER];
  struct stat status;
  if (fstat(r->fd, &status) || !S_ISREG(status.st_mode)) return WRONG(r, "it is no regular file");
  r->file_bytes = status.st_size;
  if (r->file_bytes < HEADER || !bd_rt_read_at(r->fd, raw, HEADER, 0) ||
      memcmp(raw, "MMIDIDX\0", MAGIC) != 0)
    return WRONG(r, "it does not begin as Megatron's indexes do");
  const uint64_t version = number(raw + VERSION_AT, 8);
  if (version != 1) return WRONG(r, "it is of version %llu, not 1", (unsigned long long)version);
  r->token_bytes = token_bytes_of(raw[TYPE_AT]);
  if (!r->token_bytes)
    return WRONG(
        r, "its type %d is none that tokens have: uint8 (1), int32 (4), int64 (5), uint16 (8)",
        (int)raw[TYPE_AT]);
  const uint64_t sequences = number(raw + SEQUENCES_AT, 8),
                 documents = number(raw + DOCUMENTS_AT, 8);
  const uint64_t most = (uint64_t)r->file_bytes;
  const int fits = sequences <= most / START_BYTES && documents <= most / START_BYTES;
  const uint64_t bytes =
      HEADER + sequences * (LENGTH_BYTES + START_BYTES) + documents * START_BYTES;
  r->sequences = (int64_t)sequences;
  r->documents = (int64_t)documents;
  if (fits && bytes + sequences == most && sequences > 0)
    return WRONG(r, "it has modes of sequences, as sets of text and images do");
  if (!fits || bytes != most)
    return WRONG(r, "its %lld bytes are not those of %llu sequences and %llu ends of documents",
                 (long long)r->file_bytes, (unsigned long long)sequences,
                 (unsigned long long)documents);
  return 1;
}

static int check_sequences(reader *r) {
  unsigned char lengths[PIECE * LENGTH_BYTES], starts[PIECE * START_BYTES];
  const int64_t starts_at = HEADER + r->sequences * LENGTH_BYTES;
  int64_t at = 0; // where the next one begins, bytes
  for (int64_t first = 0; first < r->sequences; first += PIECE) {
    const int64_t count = bd_rt_least(PIECE, r->sequences - first);
    if (!bd_rt_read_at(r->fd, lengths, count * LENGTH_BYTES, HEADER + first * LENGTH_BYTES) ||
        !bd_rt_read_at(r->fd, starts, count * START_BYTES, starts_at + first * START_BYTES))
      return WRONG(r, "it cannot be read");
    for (int64_t i = 0; i < count; i++) {
      const int64_t length = (int32_t)number(lengths + i * LENGTH_BYTES, LENGTH_BYTES);
      const int64_t start = (int64_t)number(starts + i * START_BYTES, START_BYTES);
      if (start != at)
        return WRONG(r, "sequence %lld begins at byte %lld, not where the one before ends, at %lld",
                     (long long)(first + i), (long long)start, (long long)at);
      if (length < 0 || length > (r->tokens_bytes - at) / r->token_bytes)
        return WRONG(r, "sequence %lld has %lld tokens, which the %lld bytes of tokens do not hold",
                     (long long)(first + i), (long long)length, (long long)r->tokens_bytes);
      at += length * r->token_bytes;
    }
  }
  if (at == r->tokens_bytes) return 1;
  return WRONG(r, "its sequences end at byte %lld of the %lld bytes of tokens", (long long)at,
               (long long)r->tokens_bytes);
}

static int check_documents(reader *r) {
  unsigned char raw[PIECE * START_BYTES];
  const int64_t all_at = HEADER + r->sequences * (LENGTH_BYTES + START_BYTES);
  int64_t last = 0;
  for (int64_t first = 0; first < r->documents; first += PIECE) {
    const int64_t count = bd_rt_least(PIECE, r->documents - first);
    if (!bd_rt_read_at(r->fd, raw, count * START_BYTES, all_at + first * START_BYTES))
      return WRONG(r, "it cannot be read");
    for (int64_t i = 0; i < count; i++) {
      const int64_t end = (int64_t)number(raw + i * START_BYTES, START_BYTES);
      if (end < last || end > r->sequences)
        return WRONG(r, "document %lld ends at sequence %lld of %lld, after one that ends at %lld",
                     (long long)(first + i), (long long)end, (long long)r->sequences,
                     (long long)last);
      last = end;
    }
  }
  return 1;
}

int bd_rt_megatron_read(const char *index, int64_t tokens_bytes, int whole, int *out_token_bytes,
                        char *message, size_t message_bytes) {
  reader r = {.fd = open(index, O_RDONLY | O_CLOEXEC), .tokens_bytes = tokens_bytes};
  if (r.fd < 0) {
    snprintf(message, message_bytes, "%s: %s", index, strerror(errno));
    return BD_RT_EXIT_DATA;
  }
  const int good = read_header(&r) && (!whole || (check_sequences(&r) && check_documents(&r)));
  close(r.fd);
  *out_token_bytes = r.token_bytes;
  if (good) return 0;
  snprintf(message, message_bytes, "%s: not a sound index of Megatron: %s", index, r.why);
  return BD_RT_EXIT_DATA;
}

int bd_rt_megatron_find(const char *path, char *out_index, char *out_tokens) {
  const size_t length = strlen(path);
  if (length < 5 || length >= BD_RT_MEGATRON_PATH) return 0;
  const char *const end = path + length - 4;
  const int is_index = !strcmp(end, ".idx");
  if (!is_index && strcmp(end, ".bin") != 0) return 0;
  memcpy(out_index, path, length + 1);
  memcpy(out_tokens, path, length + 1);
  memcpy(out_index + length - 3, "idx", 3);
  memcpy(out_tokens + length - 3, "bin", 3);
  return is_index || !access(out_index, F_OK);
}
