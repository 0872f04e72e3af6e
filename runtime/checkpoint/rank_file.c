#include "runtime/checkpoint/rank_file.h"

#include "runtime/backend.h"
#include "runtime/checkpoint/digest.h"
#include "runtime/checkpoint/held.h"
#include "runtime/read_at.h"
#include "runtime/safetensors_header.h"
#include "runtime/tie.h"
#include "runtime/write_all.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = BD_RT_SCRATCH_FLOATS * 4 };

typedef struct writer {
  bd_rt *rt;
  int fd, error;
  bd_rt_header header;
  bd_rt_digest digest;
} writer;

void bd_rt_cut_name(int global_index, int kind, char out_name[BD_RT_CUT_NAME]) {
  snprintf(out_name, BD_RT_CUT_NAME, "%d.%s", global_index, bd_rt_saved_name(kind));
}

static void put(writer *w, const void *data, int64_t bytes) {
  if (w->error) return;
  if (!bd_rt_write_all(w->fd, data, (size_t)bytes)) w->error = errno;
  bd_rt_digest_add(&w->digest, data, (size_t)bytes);
}

typedef void (*visitor)(writer *w, const bd_rt_weight *weight, int kind, const bd_rt_cut *cut);

static void add_to_header(writer *w, const bd_rt_weight *weight, int kind, const bd_rt_cut *cut) {
  char name[BD_RT_CUT_NAME];
  bd_rt_cut_name(weight->global_index, kind, name);
  bd_rt_header_add(&w->header, name, cut->dtype, 1, &cut->count);
}

static void put_data(writer *w, const bd_rt_weight *weight, int kind, const bd_rt_cut *cut) {
  bd_rt *const rt = w->rt;
  const bd_rt_cut held = bd_rt_cut_held(rt->program, weight, kind, rt->coord);
  const int64_t element = bd_rt_element_bytes(cut->dtype), bytes = cut->count * element;
  const char *const data =
      (const char *)bd_rt_held_data(rt, weight, kind) + (cut->start - held.start) * element;
  for (int64_t done = 0; done < bytes && !w->error; done += PIECE_BYTES) {
    const int64_t piece = bd_rt_least(PIECE_BYTES, bytes - done);
    put(w, bd_rt_view(rt, data + done, piece), piece);
  }
}

static void visit(writer *w, visitor each) {
  const bd_rt *const rt = w->rt;
  for (int i = 0; i < rt->stage->weight_count; i++) {
    const bd_rt_weight *const weight = &rt->stage->weights[i];
    if (bd_rt_first_holder(rt, weight->global_index) != rt->stage_index) continue;
    for (int kind = 0; kind < BD_RT_SAVED_KINDS; kind++) {
      if (!bd_rt_saved_has(rt->program, weight, kind)) continue;
      const bd_rt_cut cut = bd_rt_cut_written(rt->program, weight, kind, rt->coord);
      if (cut.count > 0) each(w, weight, kind, &cut);
    }
  }
}

static void put_all(writer *w) {
  if (!bd_rt_header_begin(&w->header)) {
    w->error = ENOMEM;
    return;
  }
  visit(w, add_to_header);
  if (!bd_rt_header_end(&w->header)) {
    w->error = ENOMEM;
    return;
  }
  put(w, w->header.text, (int64_t)w->header.bytes);
  visit(w, put_data);
  free(w->header.text);
}

int bd_rt_rank_file_write(bd_rt *rt, const char *path, bd_rt_seal *out_seal) {
  writer w = {.rt = rt, .fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  if (w.fd < 0) return errno;
  bd_rt_digest_start(&w.digest);
  put_all(&w);
  if (!w.error && fsync(w.fd)) w.error = errno;
  if (close(w.fd) && !w.error) w.error = errno;
  *out_seal = (bd_rt_seal){(int64_t)w.digest.bytes, bd_rt_digest_value(&w.digest)};
  return w.error;
}

static int compare(bd_rt *rt, int fd, bd_rt_seal seal, const char **out_why) {
  struct stat about;
  bd_rt_digest digest;
  if (fstat(fd, &about) || !S_ISREG(about.st_mode)) return *out_why = "is no regular file", 0;
  if (about.st_size != seal.bytes) return *out_why = "does not have the size it was written in", 0;
  bd_rt_digest_start(&digest);
  for (int64_t done = 0; done < seal.bytes; done += PIECE_BYTES) {
    const int64_t piece = bd_rt_least(PIECE_BYTES, seal.bytes - done);
    if (!bd_rt_read_at(fd, rt->scratch, piece, done)) return *out_why = "cannot be read", 0;
    bd_rt_digest_add(&digest, rt->scratch, (size_t)piece);
  }
  if (bd_rt_digest_value(&digest) == seal.digest) return 1;
  return *out_why = "is damaged: its bytes are not those that were written", 0;
}

int bd_rt_rank_file_check(bd_rt *rt, const char *path, bd_rt_seal seal, char *message,
                          size_t message_bytes) {
  const char *why = NULL;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const int good = fd >= 0 && compare(rt, fd, seal, &why);
  if (!good) snprintf(message, message_bytes, "%s: %s", path, why ? why : strerror(errno));
  if (fd >= 0) close(fd);
  return good ? 0 : BD_RT_EXIT_DATA;
}
