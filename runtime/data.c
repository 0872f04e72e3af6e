#include "runtime/data.h"

#include "runtime/megatron.h"
#include "runtime/options.h"
#include "runtime/philox.h"
#include "runtime/read_at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 16, HEADER_BYTES = 1024 };

int bd_rt_data_tokens(const bd_rt_data *data, int64_t at, int64_t count, int32_t *out) {
  unsigned char raw[4096];
  const int64_t most = (int64_t)sizeof raw / data->token_bytes;
  for (int64_t done = 0; done < count; done += most) {
    const int64_t piece = count - done < most ? count - done : most;
    if (!bd_rt_read_at(data->fd, raw, piece * data->token_bytes,
                       data->offset + (at + done) * data->token_bytes))
      return BD_RT_EXIT_EXTERNAL;
    for (int64_t i = 0; i < piece; i++) {
      uint64_t token = 0;
      for (int b = data->token_bytes - 1; b >= 0; b--)
        token = token << 8 | raw[i * data->token_bytes + b];
      out[done + i] = (int32_t)(token < UINT32_MAX ? token : UINT32_MAX);
    }
  }
  return 0;
}

static int ends_with(const char *text, const char *end) {
  const size_t a = strlen(text), b = strlen(end);
  return a >= b && !strcmp(text + a - b, end);
}

// llm.c's headers: 256 int32, of which magic, version and the count of tokens are used.
static int read_llmc_header(bd_rt_data *data, int64_t file_bytes, const char *path, char *message,
                            size_t message_bytes) {
  int32_t header[3];
  if (file_bytes < HEADER_BYTES || !bd_rt_read_at(data->fd, header, sizeof header, 0)) return 0;
  const int v1 = header[0] == 20240520, v7 = header[0] == 20240801;
  if (!v1 && !v7) return 0;
  data->token_bytes = v1 ? 2 : 4;
  data->offset = HEADER_BYTES;
  data->count = header[2];
  if (header[1] != (v1 ? 1 : 7) || header[2] < 0 ||
      file_bytes != HEADER_BYTES + data->count * data->token_bytes) {
    snprintf(message, message_bytes,
             "%s: an llm.c token file of version %d that says %d tokens but has %lld bytes", path,
             (int)header[1], (int)header[2], (long long)file_bytes);
    return BD_RT_EXIT_DATA;
  }
  return 0;
}

static int check_tokens(const bd_rt_data *data, int64_t vocabulary, const char *path, char *message,
                        size_t message_bytes) {
  static int32_t tokens[PIECE];
  for (int64_t done = 0; done < data->count; done += PIECE) {
    const int64_t piece = data->count - done < PIECE ? data->count - done : PIECE;
    if (bd_rt_data_tokens(data, done, piece, tokens)) {
      snprintf(message, message_bytes, "%s: cannot be read at token %lld", path, (long long)done);
      return BD_RT_EXIT_EXTERNAL;
    }
    for (int64_t i = 0; i < piece; i++)
      if ((uint32_t)tokens[i] >= (uint64_t)vocabulary) {
        snprintf(
            message, message_bytes,
            "%s: token %u at position %lld is not below the model's vocabulary of %lld; the file "
            "is read as tokens of %d byte%s (--tokenizer)",
            path, (unsigned)tokens[i], (long long)(done + i), (long long)vocabulary,
            data->token_bytes, data->token_bytes == 1 ? "" : "s");
        return BD_RT_EXIT_DATA;
      }
  }
  return 0;
}

// `index`: Megatron's, NULL where there is none.
static int open_tokens(const bd_rt_program *program, const char *path, const char *index,
                       int tokenizer, int check, bd_rt_data *data, char *message,
                       size_t message_bytes) {
  struct stat status;
  if (fstat(data->fd, &status) || !S_ISREG(status.st_mode)) {
    snprintf(message, message_bytes, "%s: not a regular file", path);
    return BD_RT_EXIT_DATA;
  }
  if (tokenizer == BD_RT_TOKENS_BY_NAME && ends_with(path, ".txt")) tokenizer = BD_RT_TOKENS_BYTES;
  data->token_bytes = tokenizer == BD_RT_TOKENS_BYTES ? 1 : tokenizer == BD_RT_TOKENS_U32 ? 4 : 2;
  if (tokenizer == BD_RT_TOKENS_BY_NAME) {
    const int bad = index ? bd_rt_megatron_read(index, status.st_size, check, &data->token_bytes,
                                                message, message_bytes)
                          : read_llmc_header(data, status.st_size, path, message, message_bytes);
    if (bad) return bad;
  }
  if (data->offset == 0 && status.st_size % data->token_bytes) {
    snprintf(message, message_bytes, "%s: %lld bytes are no whole number of %d-byte tokens", path,
             (long long)status.st_size, data->token_bytes);
    return BD_RT_EXIT_DATA;
  }
  if (data->offset == 0) data->count = status.st_size / data->token_bytes;
  if (data->count <= program->sequence) {
    snprintf(message, message_bytes,
             "%s: too few tokens for a sequence of %lld and its target: %lld", path,
             (long long)program->sequence, (long long)data->count);
    return BD_RT_EXIT_DATA;
  }
  return check ? check_tokens(data, program->vocabulary, path, message, message_bytes) : 0;
}

int bd_rt_data_open(const bd_rt_program *program, const char *path, int tokenizer, int check,
                    bd_rt_data *out_data, char *message, size_t message_bytes) {
  if (program->vocabulary == 0)
    return bd_rt_data_open_arrays(program, path, check, out_data, message, message_bytes);
  char index[BD_RT_MEGATRON_PATH], tokens[BD_RT_MEGATRON_PATH];
  const int indexed = tokenizer == BD_RT_TOKENS_BY_NAME && bd_rt_megatron_find(path, index, tokens);
  if (indexed) path = tokens;
  *out_data = BD_RT_NO_DATA;
  out_data->fd = open(path, O_RDONLY | O_CLOEXEC);
  if (out_data->fd < 0) {
    snprintf(message, message_bytes, "%s: %s", path, strerror(errno));
    return BD_RT_EXIT_DATA;
  }
  const int status = open_tokens(program, path, indexed ? index : NULL, tokenizer, check, out_data,
                                 message, message_bytes);
  if (status) bd_rt_data_close(out_data);
  return status;
}

void bd_rt_data_close(bd_rt_data *data) {
  if (data->fd >= 0) close(data->fd);
  bd_rt_data_close_arrays(data);
  *data = BD_RT_NO_DATA;
}

int64_t bd_rt_data_position(const bd_rt_program *program, const bd_rt_data *data, uint64_t seed,
                            uint64_t step, int64_t sample) {
  const int64_t positions = program->vocabulary ? data->count - program->sequence : data->count;
  const bd_philox_words r =
      bd_philox_4x32((uint32_t)sample, (uint32_t)((uint64_t)sample >> 32), (uint32_t)step,
                     (uint32_t)BD_PHILOX_WINDOW, (uint32_t)seed, (uint32_t)(seed >> 32));
  const uint64_t draw = (uint64_t)r.word[1] << 32 | r.word[0];
  return (int64_t)(((unsigned __int128)draw * (uint64_t)positions) >> 64);
}
