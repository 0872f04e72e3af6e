#include "ir/base/gzip.h"

#include <limits.h>
#include <zlib.h>

enum { GZIP_ONLY = 16, SCRATCH_BYTES = 1 << 16 };

bool bd_gzip_recognize(const char *data, size_t bytes) {
  return bytes >= 2 && (unsigned char)data[0] == 0x1f && (unsigned char)data[1] == 0x8b;
}

static unsigned chunk(size_t bytes) {
  return bytes > INT_MAX ? INT_MAX : (unsigned)bytes;
}

typedef struct source {
  const char *data;
  size_t bytes;
} source;

// Inflates all members. `out` NULL: only counts. Stops with Z_BUF_ERROR when more than `capacity`
// bytes come out. Returns Z_STREAM_END when all went well.
static int inflate_all(source in, unsigned char *out, size_t capacity, size_t *out_bytes) {
  unsigned char scratch[SCRATCH_BYTES];
  z_stream stream = {.next_in = (unsigned char *)in.data};
  int status = inflateInit2(&stream, MAX_WBITS + GZIP_ONLY);
  if (status != Z_OK) return status;
  size_t made = 0;
  while (status == Z_OK || in.bytes > 0) {
    if (status == Z_STREAM_END) {
      if (!bd_gzip_recognize((const char *)stream.next_in, in.bytes)) {
        status = Z_DATA_ERROR;
        break;
      }
      inflateReset(&stream);
    }
    unsigned offered = chunk(in.bytes);
    unsigned room = out ? chunk(capacity - made) : SCRATCH_BYTES;
    // One spare byte past the capacity lets the trailer be read when the text fits exactly.
    stream.avail_in = offered;
    stream.next_out = out && room > 0 ? out + made : scratch;
    stream.avail_out = room > 0 ? room : 1;
    unsigned asked = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    in.bytes -= offered - stream.avail_in;
    made += asked - stream.avail_out;
    if (made > capacity) status = Z_BUF_ERROR;
    if (status != Z_OK && status != Z_STREAM_END) break;
    if (status == Z_OK && in.bytes == 0 && stream.avail_out > 0) break;
  }
  inflateEnd(&stream);
  *out_bytes = made;
  return status;
}

bd_status bd_gzip_inflate(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                          size_t max_bytes, char **out_data, size_t *out_bytes) {
  bd_loc loc = bd_loc_file(file);
  source in = {data, bytes};
  size_t total = 0;
  int status = inflate_all(in, NULL, max_bytes, &total);
  if (status == Z_MEM_ERROR) return bd_fail(ctx, BD_EXHAUSTED, loc, "out of memory in zlib");
  if (total > max_bytes) {
    return bd_fail(ctx, BD_INVALID, loc,
                   "inflates to more than the limit of %zu bytes; where that is meant, inflate it "
                   "with gunzip first",
                   max_bytes);
  }
  if (status == Z_OK || (status == Z_BUF_ERROR && total <= max_bytes)) {
    return bd_fail(ctx, BD_INVALID, loc, "is a gzip file cut short; copy it again");
  }
  if (status != Z_STREAM_END) {
    return bd_fail(ctx, BD_INVALID, loc, "is a damaged gzip file; copy it again");
  }
  char *text = bd_arena_alloc(ctx->arena, total + 1);
  size_t again = 0;
  if (inflate_all(in, (unsigned char *)text, total, &again) != Z_STREAM_END || again != total) {
    return bd_fail(ctx, BD_INTERNAL, loc, "inflated differently the second time");
  }
  text[total] = '\0';
  *out_data = text;
  *out_bytes = total;
  return BD_OK;
}
