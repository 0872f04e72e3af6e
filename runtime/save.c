// Weights to a safetensors file: stored tensors are assembled from the ranks piece by piece,
// written to a temporary file, and renamed when they are safe on disk.
#include "runtime/save.h"

#include "runtime/backend.h"
#include "runtime/master.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = BD_RT_SCRATCH_FLOATS / 4 };

void bd_rt_write_name(FILE *header, const char *name) {
  fputc('"', header);
  for (; *name; name++) {
    const unsigned char c = (unsigned char)*name;
    if (c == '"' || c == '\\')
      fprintf(header, "\\%c", c);
    else if (c < 0x20)
      fprintf(header, "\\u%04x", c);
    else
      fputc(c, header);
  }
  fputc('"', header);
}

// The length word and the header, padded so that data starts at a multiple of 8. NULL without
// memory.
static char *make_header(int count, const bd_rt_stored *stored, size_t *out_bytes) {
  char *text = NULL;
  size_t length = 0;
  FILE *const header = open_memstream(&text, &length);
  if (!header) return NULL;
  fputs("........{\"__metadata__\":{\"format\":\"pt\"}", header);
  int64_t at = 0;
  for (int i = 0; i < count; i++) {
    const bd_rt_weight *const weight = stored[i].weight;
    const int64_t bytes = bd_rt_stored_elements(weight) * 4;
    fputc(',', header);
    bd_rt_write_name(header, stored[i].name);
    fputs(":{\"dtype\":\"F32\",\"shape\":[", header);
    for (int d = 0; d < weight->stored_rank; d++)
      fprintf(header, "%s%lld", d ? "," : "", (long long)weight->stored_dims[d]);
    fprintf(header, "],\"data_offsets\":[%lld,%lld]}", (long long)at, (long long)(at + bytes));
    at += bytes;
  }
  fputc('}', header);
  while (ftell(header) % 8)
    fputc(' ', header);
  if (fclose(header)) return NULL;
  for (int i = 0; i < 8; i++)
    text[i] = (char)((uint64_t)(length - 8) >> (8 * i));
  *out_bytes = length;
  return text;
}

static int write_all(int fd, const void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t put = write(fd, (const char *)data + done, bytes - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return 0;
    done += (size_t)put;
  }
  return 1;
}

// Whether this rank speaks for its elements: replicas stay silent, and so do later stages.
static int speaks(const bd_rt *rt, const bd_rt_weight *weight) {
  const bd_rt_layout layout = bd_rt_plain_layout(rt, weight);
  for (int a = 0; a < rt->program->axes; a++)
    if (layout.at[a] < 0 && rt->coord[a] > 0) return 0;
  for (int s = 0; s < rt->stage_index; s++)
    for (int i = 0; i < rt->program->stage[s].weight_count; i++)
      if (rt->program->stage[s].weights[i].global_index == weight->global_index) return 0;
  return 1;
}

static void collect_piece(bd_rt *rt, const bd_rt_stored *stored, int64_t first, int64_t count) {
  const char *const name = bd_rt_stored_name(stored->weight, stored->number);
  memset(rt->scratch, 0, (size_t)count * sizeof(float));
  for (int i = 0; i < rt->stage->weight_count; i++) {
    const bd_rt_weight *const weight = &rt->stage->weights[i];
    if (stored->number >= bd_rt_stored_count(weight) ||
        strcmp(bd_rt_stored_name(weight, stored->number), name) || !speaks(rt, weight))
      continue;
    const bd_rt_local local = bd_rt_plain_local(rt, weight);
    const int64_t start = stored->number * bd_rt_stored_elements(weight);
    bd_rt_pick(rt, weight, &local, start + first, count, bd_rt_plain_dtype(rt, weight),
               bd_rt_plain(rt, weight), rt->scratch);
  }
  // Every element has one speaker: or-ing bits moves it unchanged.
  bd_rt_merge_words(rt, (uint32_t *)(void *)rt->scratch, (int)count);
}

// All ranks go through all pieces; rank 0 writes while it can. Returns whether it could.
static int write_tensors(bd_rt *rt, int tensors, const bd_rt_stored *stored, int fd) {
  int good = 1;
  for (int i = 0; i < tensors; i++) {
    const int64_t elements = bd_rt_stored_elements(stored[i].weight);
    for (int64_t first = 0; first < elements; first += PIECE) {
      const int64_t count = elements - first < PIECE ? elements - first : PIECE;
      collect_piece(rt, &stored[i], first, count);
      if (rt->rank == 0 && good) good = write_all(fd, rt->scratch, (size_t)count * sizeof(float));
    }
  }
  return good;
}

static int finish(int fd, int good, const char *temporary, const char *path) {
  good = good && !fsync(fd);
  good = !close(fd) && good;
  good = good && !rename(temporary, path);
  if (!good) {
    const int reason = errno;
    unlink(temporary);
    errno = reason;
  }
  return good;
}

int bd_rt_save_file(bd_rt *rt, const char *path, int count, const bd_rt_stored *stored) {
  char message[1024] = "", temporary[4096];
  int fd = -1, status = 0;
  snprintf(temporary, sizeof temporary, "%s.partial", path);
  if (rt->rank == 0) {
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
      snprintf(message, sizeof message, "%s.partial: %s", path, strerror(errno));
      status = BD_RT_EXIT_EXTERNAL;
    }
  }
  status = bd_rt_agree(rt, status, message);
  if (status) return status;
  size_t bytes = 0;
  char *const header = rt->rank == 0 ? make_header(count, stored, &bytes) : NULL;
  int good = rt->rank != 0 || (header && write_all(fd, header, bytes));
  good = write_tensors(rt, count, stored, fd) && good;
  if (rt->rank == 0 && !finish(fd, good, temporary, path)) {
    snprintf(message, sizeof message, "%s: cannot be written: %s", path, strerror(errno));
    status = BD_RT_EXIT_EXTERNAL;
  }
  free(header);
  return bd_rt_agree(rt, status, message);
}
