#include "runtime/checkpoint/manifest.h"
#include "runtime/half.h"
#include "runtime/json.h"
#include "runtime/read_at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 100000000, MOST_DEPTH = 8 };
#define MOST_ELEMENTS (INT64_C(1) << 56)

typedef struct list {
  int count;
  int64_t numbers[BD_RT_MAX_RANK];
} list;

typedef struct reader {
  bd_rt_json json;
  char *scratch, *names; // each as long as the file; names are kept in the second
  bd_rt_manifest *manifest;
  int capacity; // of its weights, or its files
} reader;

typedef enum kind { WHOLE, HEX, TEXT, LIST, ITEMS } kind;

// A member that an object must have once. `to`: int64_t, uint64_t, const char * or a list; of ITEMS
// what reads each.
typedef struct field {
  const char *name;
  kind kind;
  void *to;
  int (*item)(reader *r);
} field;

static int read_hex(reader *r, uint64_t *out) {
  size_t length;
  char *end;
  if (!bd_rt_json_string(&r->json, r->scratch, &length) || length == 0 || length > 16 ||
      strspn(r->scratch, "0123456789abcdef") != length)
    return 0;
  *out = strtoull(r->scratch, &end, 16);
  return 1;
}

static int read_text(reader *r, const char **out) {
  size_t length;
  if (!bd_rt_json_string(&r->json, r->names, &length)) return 0;
  *out = r->names;
  r->names += length + 1;
  return 1;
}

static int read_list(reader *r, list *out) {
  out->count = 0;
  if (!bd_rt_json_take(&r->json, '[')) return 0;
  if (bd_rt_json_take(&r->json, ']')) return 1;
  do {
    if (out->count == BD_RT_MAX_RANK || !bd_rt_json_whole(&r->json, &out->numbers[out->count++]))
      return 0;
  } while (bd_rt_json_take(&r->json, ','));
  return bd_rt_json_take(&r->json, ']');
}

static int read_items(reader *r, int (*item)(reader *r)) {
  r->capacity = 0;
  if (!bd_rt_json_take(&r->json, '[')) return 0;
  if (bd_rt_json_take(&r->json, ']')) return 1;
  do {
    if (!item(r)) return 0;
  } while (bd_rt_json_take(&r->json, ','));
  return bd_rt_json_take(&r->json, ']');
}

static int read_field(reader *r, const field *f) {
  switch (f->kind) {
  case WHOLE:
    return bd_rt_json_whole(&r->json, f->to);
  case HEX:
    return read_hex(r, f->to);
  case TEXT:
    return read_text(r, f->to);
  case LIST:
    return read_list(r, f->to);
  default:
    return read_items(r, f->item);
  }
}

// Other members are passed over.
static int read_object(reader *r, int count, const field *fields) {
  unsigned seen = 0;
  size_t length;
  if (!bd_rt_json_take(&r->json, '{')) return 0;
  do {
    int f = 0;
    if (!bd_rt_json_string(&r->json, r->scratch, &length) || !bd_rt_json_take(&r->json, ':'))
      return 0;
    while (f < count && strcmp(fields[f].name, r->scratch))
      f++;
    if (f == count) {
      if (!bd_rt_json_skip(&r->json, r->scratch, MOST_DEPTH)) return 0;
    } else if (seen >> f & 1 || !read_field(r, &fields[f])) {
      return 0;
    }
    if (f < count) seen |= 1u << f;
  } while (bd_rt_json_take(&r->json, ','));
  return bd_rt_json_take(&r->json, '}') && seen == (1u << count) - 1;
}

// Room for one more of `count`, which are `bytes` each.
static int grow(reader *r, void *items, int count, size_t bytes) {
  void *more;
  if (count < r->capacity) return 1;
  r->capacity = r->capacity ? 2 * r->capacity : 64;
  memcpy(&more, items, sizeof more);
  more = realloc(more, (size_t)r->capacity * bytes);
  if (!more) return 0;
  memcpy(items, &more, sizeof more);
  return 1;
}

static int read_file(reader *r) {
  bd_rt_manifest *const m = r->manifest;
  bd_rt_seal seal = {0};
  const field fields[] = {{"bytes", WHOLE, &seal.bytes, NULL}, {"digest", HEX, &seal.digest, NULL}};
  if (m->file_count == BD_RT_MOST_FILES || !read_object(r, 2, fields) ||
      !grow(r, &m->files, m->file_count, sizeof *m->files))
    return 0;
  m->files[m->file_count++] = seal;
  return 1;
}

// Numbers of a weight as they are read.
typedef struct numbers {
  int64_t number, stage, dtype, cut_axis, cut_dim, rounded, trained, factor_dim;
  list dims, at;
} numbers;

static int is_half_or_float(int64_t dtype) {
  return dtype == BD_RT_F32 || dtype == BD_RT_BF16 || dtype == BD_RT_F16;
}

// What the numbers say by themselves; together with the mesh: see check_weight.
static int are_sound(const numbers *n) {
  int64_t elements = 1;
  for (int d = 0; d < n->dims.count; d++)
    if (__builtin_mul_overflow(elements, n->dims.numbers[d], &elements)) return 0;
  return elements <= MOST_ELEMENTS && n->number <= INT32_MAX && n->stage <= INT32_MAX &&
         is_half_or_float(n->dtype) && n->cut_axis <= BD_RT_MAX_AXES && n->rounded <= 1 &&
         (!n->rounded || n->dtype == BD_RT_BF16) && n->trained <= 1 &&
         n->factor_dim <= n->dims.count && n->at.count <= BD_RT_MAX_AXES &&
         (n->cut_axis == 0 ? n->cut_dim <= BD_RT_MAX_RANK : n->cut_dim < n->dims.count);
}

static bd_rt_weight weight_of(const numbers *n, const char *name) {
  bd_rt_weight weight = {.stored_name = name,
                         .global_index = (int32_t)n->number,
                         .layout = {.dtype = (int32_t)n->dtype, .rank = n->dims.count},
                         .cut_axis = (int32_t)n->cut_axis,
                         .cut_dim = (int32_t)n->cut_dim,
                         .rounded = (int32_t)n->rounded,
                         .gradient_count = (int32_t)n->trained,
                         .factor_dim = (int32_t)n->factor_dim};
  memcpy(weight.layout.dims, n->dims.numbers, sizeof weight.layout.dims);
  for (int a = 0; a < BD_RT_MAX_AXES; a++)
    weight.layout.at[a] =
        a < n->at.count && n->at.numbers[a] <= n->dims.count ? (int32_t)n->at.numbers[a] - 1 : -1;
  return weight;
}

static int read_weight(reader *r) {
  bd_rt_manifest *const m = r->manifest;
  numbers n = {0};
  const char *name = NULL;
  const field fields[] = {{"number", WHOLE, &n.number, NULL},
                          {"name", TEXT, &name, NULL},
                          {"stage", WHOLE, &n.stage, NULL},
                          {"dtype", WHOLE, &n.dtype, NULL},
                          {"dims", LIST, &n.dims, NULL},
                          {"at", LIST, &n.at, NULL},
                          {"cut_axis", WHOLE, &n.cut_axis, NULL},
                          {"cut_dim", WHOLE, &n.cut_dim, NULL},
                          {"rounded", WHOLE, &n.rounded, NULL},
                          {"trained", WHOLE, &n.trained, NULL},
                          {"factor_dim", WHOLE, &n.factor_dim, NULL}};
  if (!read_object(r, sizeof fields / sizeof fields[0], fields) || !are_sound(&n) ||
      !grow(r, &m->weights, m->weight_count, sizeof *m->weights))
    return 0;
  m->weights[m->weight_count++] = (bd_rt_saved){weight_of(&n, name), (int)n.stage};
  return 1;
}

// The mesh, and what its ranks are in all.
static int take_mesh(bd_rt_manifest *m, const list *mesh, int64_t stages, int64_t zero_axes) {
  int64_t ranks = stages;
  if (mesh->count > BD_RT_MAX_AXES || stages < 1 || stages > BD_RT_MOST_FILES) return 0;
  m->program.axes = mesh->count;
  m->program.stages = (int32_t)stages;
  m->program.zero_axes = (uint32_t)zero_axes;
  for (int a = 0; a < mesh->count; a++) {
    if (mesh->numbers[a] < 1 || mesh->numbers[a] > BD_RT_MOST_FILES) return 0;
    ranks *= mesh->numbers[a];
    if (ranks > BD_RT_MOST_FILES) return 0;
    m->program.mesh[a] = (int32_t)mesh->numbers[a];
  }
  m->devices = (int)(ranks / stages);
  return ranks == m->file_count && zero_axes >> BD_RT_MAX_AXES == 0;
}

static int check_weight(const bd_rt_manifest *m, int i) {
  const bd_rt_weight *const weight = &m->weights[i].weight;
  const int axis = weight->cut_axis - 1;
  if (i > 0 && weight->global_index <= m->weights[i - 1].weight.global_index) return 0;
  if (axis >= m->program.axes || (axis >= 0 && weight->layout.at[axis] >= 0)) return 0;
  return m->weights[i].stage < m->program.stages;
}

static int read_manifest(reader *r) {
  bd_rt_manifest *const m = r->manifest;
  int64_t format, bits, optimizer, stages, zero_axes;
  const char *model;
  list mesh;
  const field fields[] = {{"format", WHOLE, &format, NULL},
                          {"model", TEXT, &model, NULL},
                          {"step", WHOLE, &m->step, NULL},
                          {"updates", WHOLE, &m->updates, NULL},
                          {"seed", HEX, &m->seed, NULL},
                          {"loss_scale_bits", WHOLE, &bits, NULL},
                          {"finite_steps", WHOLE, &m->finite_steps, NULL},
                          {"data_count", WHOLE, &m->data_count, NULL},
                          {"global_batch", WHOLE, &m->program.global_batch, NULL},
                          {"sequence", WHOLE, &m->program.sequence, NULL},
                          {"optimizer", WHOLE, &optimizer, NULL},
                          {"stages", WHOLE, &stages, NULL},
                          {"mesh", LIST, &mesh, NULL},
                          {"zero_axes", WHOLE, &zero_axes, NULL},
                          {"weights", ITEMS, NULL, read_weight},
                          {"files", ITEMS, NULL, read_file}};
  if (!read_object(r, sizeof fields / sizeof fields[0], fields)) return 0;
  m->program.optimizer = (int32_t)optimizer;
  m->loss_scale = bd_rt_of_bits((uint32_t)bits);
  if (format != BD_RT_MANIFEST_FORMAT || optimizer > BD_RT_ADAFACTOR || bits > UINT32_MAX ||
      m->updates > m->step || !take_mesh(m, &mesh, stages, zero_axes))
    return 0;
  for (int i = 0; i < m->weight_count; i++)
    if (!check_weight(m, i)) return 0;
  return 1;
}

static int open_manifest(reader *r, const char *path, const char **out_why) {
  struct stat about;
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return *out_why = strerror(errno), 0;
  char *text = NULL;
  int good = 0;
  if (fstat(fd, &about) || !S_ISREG(about.st_mode) || about.st_size > MOST_BYTES) {
    *out_why = "is no regular file of at most 100 MB";
  } else {
    text = malloc((size_t)about.st_size + 1);
    r->scratch = malloc((size_t)about.st_size + 1);
    r->names = r->manifest->text = malloc(2 * (size_t)about.st_size + 1);
    *out_why = "is no sound description of a checkpoint";
    if (text && r->scratch && r->names && bd_rt_read_at(fd, text, about.st_size, 0)) {
      r->json = (bd_rt_json){text, text + about.st_size};
      good = read_manifest(r);
    }
  }
  close(fd);
  free(text);
  free(r->scratch);
  return good;
}

int bd_rt_manifest_read(const char *path, bd_rt_manifest *out, char *message,
                        size_t message_bytes) {
  reader r = {.manifest = out};
  const char *why = NULL;
  *out = (bd_rt_manifest){0};
  if (open_manifest(&r, path, &why)) return 0;
  snprintf(message, message_bytes, "%s: %s", path, why);
  bd_rt_manifest_close(out);
  return BD_RT_EXIT_DATA;
}

void bd_rt_manifest_close(bd_rt_manifest *manifest) {
  free(manifest->weights);
  free(manifest->files);
  free(manifest->text);
  *manifest = (bd_rt_manifest){0};
}

static int by_number(const void *a, const void *b) {
  const bd_rt_saved *const x = a, *const y = b;
  return (x->weight.global_index > y->weight.global_index) -
         (x->weight.global_index < y->weight.global_index);
}

const bd_rt_saved *bd_rt_manifest_find(const bd_rt_manifest *manifest, int global_index) {
  const bd_rt_saved wanted = {.weight = {.global_index = global_index}};
  return manifest->weight_count ? bsearch(&wanted, manifest->weights,
                                          (size_t)manifest->weight_count, sizeof wanted, by_number)
                                : NULL;
}
