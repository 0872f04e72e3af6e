// Inflation with a bound: whole files, several members, damage, and files that inflate too far.
#include "ir/base/gzip.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka needs the headers above.
#include <cmocka.h>
#include <zlib.h>

enum { TEXT_BYTES = 300000, PACKED_BYTES = 400000 };

static size_t pack(const char *text, size_t bytes, char *out, size_t room) {
  z_stream stream = {0};
  assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY),
                   Z_OK);
  stream.next_in = (unsigned char *)text;
  stream.avail_in = (unsigned)bytes;
  stream.next_out = (unsigned char *)out;
  stream.avail_out = (unsigned)room;
  assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
  size_t made = room - stream.avail_out;
  deflateEnd(&stream);
  return made;
}

typedef struct sample {
  bd_ctx *ctx;
  char text[TEXT_BYTES];
  char packed[2 * PACKED_BYTES];
  size_t packed_bytes;
} sample;

static sample *sample_create(void) {
  sample *s = calloc(1, sizeof *s);
  s->ctx = bd_ctx_create();
  unsigned state = 1;
  for (int i = 0; i < TEXT_BYTES; i++) {
    state = state * 1103515245u + 12345u;
    s->text[i] = (char)(state >> 24);
  }
  s->packed_bytes = pack(s->text, TEXT_BYTES, s->packed, PACKED_BYTES);
  return s;
}

static void sample_destroy(sample *s) {
  bd_ctx_destroy(s->ctx);
  free(s);
}

static void refuses(bd_ctx *ctx, const char *data, size_t bytes, size_t max_bytes,
                    const char *word) {
  char *out = NULL;
  size_t out_bytes = 0;
  int before = ctx->error_count;
  assert_int_equal(bd_gzip_inflate(ctx, "f.gz", data, bytes, max_bytes, &out, &out_bytes),
                   BD_INVALID);
  assert_int_equal(ctx->error_count, before + 1);
  assert_non_null(strstr(ctx->last_diag->message, word));
}

static void inflates_members(void **state) {
  (void)state;
  sample *s = sample_create();
  assert_true(bd_gzip_recognize(s->packed, s->packed_bytes));
  assert_false(bd_gzip_recognize("{}", 2));
  char *out = NULL;
  size_t bytes = 0;
  assert_int_equal(
      bd_gzip_inflate(s->ctx, "f.gz", s->packed, s->packed_bytes, TEXT_BYTES, &out, &bytes), BD_OK);
  assert_int_equal(bytes, TEXT_BYTES);
  assert_memory_equal(out, s->text, TEXT_BYTES);
  assert_int_equal(out[TEXT_BYTES], 0);
  size_t two = s->packed_bytes +
               pack("tail", 4, s->packed + s->packed_bytes, sizeof s->packed - s->packed_bytes);
  assert_int_equal(bd_gzip_inflate(s->ctx, "f.gz", s->packed, two, 1 << 20, &out, &bytes), BD_OK);
  assert_int_equal(bytes, TEXT_BYTES + 4);
  assert_string_equal(out + TEXT_BYTES, "tail");
  size_t none = pack("", 0, s->packed, sizeof s->packed);
  assert_int_equal(bd_gzip_inflate(s->ctx, "f.gz", s->packed, none, 0, &out, &bytes), BD_OK);
  assert_int_equal(bytes, 0);
  sample_destroy(s);
}

static void refuses_damage(void **state) {
  (void)state;
  sample *s = sample_create();
  for (size_t cut = 2; cut < s->packed_bytes; cut += 10007)
    refuses(s->ctx, s->packed, cut, 1 << 20, "cut short");
  refuses(s->ctx, s->packed, s->packed_bytes - 1, 1 << 20, "cut short");
  refuses(s->ctx, s->packed, s->packed_bytes, TEXT_BYTES - 1, "more than the limit");
  s->packed[s->packed_bytes] = 'x';
  refuses(s->ctx, s->packed, s->packed_bytes + 1, 1 << 20, "damaged");
  s->packed[s->packed_bytes - 6] ^= 1;
  refuses(s->ctx, s->packed, s->packed_bytes, 1 << 20, "damaged");
  sample_destroy(s);
}

// A file of a few hundred KiB that would fill a third of a GiB is refused without taking memory.
static void refuses_bombs(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  size_t bytes = (size_t)320 << 20, room = 1 << 20;
  char *zeros = calloc(bytes, 1), *packed = calloc(room, 1);
  size_t made = pack(zeros, bytes, packed, room);
  free(zeros);
  size_t used = bd_arena_used_bytes(ctx->arena);
  refuses(ctx, packed, made, (size_t)100 << 20, "more than the limit of 104857600 bytes");
  assert_in_range(bd_arena_used_bytes(ctx->arena) - used, 0, 1 << 12);
  free(packed);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(inflates_members),
      cmocka_unit_test(refuses_damage),
      cmocka_unit_test(refuses_bombs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
