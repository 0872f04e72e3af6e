#include "runtime/cuda/tune_file.h"

#include "runtime/braid_rt_abi.h"
#include "runtime/cuda/launcher.h"
#include "runtime/json.h"
#include "runtime/read_at.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 1, MOST_FILE_BYTES = 64 << 20, SUM_BYTES = 8, MOST_PATH = 4096 };

#define REMEDY "remove it, or name another, to tune anew"

typedef struct reader {
  bd_rt_json json;
  char *text; // scratch for one string, longer than the file
  bd_tune_maker maker;
  bd_tune_table *table;
} reader;

static void init_maker(bd_tune_maker *maker, const char *device, int64_t library) {
  memset(maker, 0, sizeof *maker);
  snprintf(maker->device, sizeof maker->device, "%s", device);
  maker->library = library;
}

// Of all that the file says but seconds.
static uint64_t sum_of(const bd_tune_maker *maker, const bd_tune_table *table) {
  const int64_t numbers[] = {VERSION, maker->library, table->count};
  uint64_t sum = bd_launcher_hash(BD_LAUNCHER_HASH, numbers, sizeof numbers);
  sum = bd_launcher_hash(sum, maker->device, strlen(maker->device) + 1);
  for (int64_t i = 0; i < table->count; i++) {
    const bd_tune_choice *const c = &table->choices[i];
    sum = bd_launcher_hash(sum, c->product, strlen(c->product) + 1);
    sum = bd_launcher_hash(sum, c->algorithm, sizeof c->algorithm);
  }
  return sum;
}

// Printable ASCII, nothing that JSON escapes, and not too long.
static int is_plain(const char *text, size_t length, size_t room) {
  for (size_t i = 0; i < length; i++)
    if (text[i] < ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\') return 0;
  return length > 0 && length < room;
}

static int take_key(reader *r, const char *key) {
  size_t length;
  return bd_rt_json_string(&r->json, r->text, &length) && length == strlen(key) &&
         !memcmp(r->text, key, length) && bd_rt_json_take(&r->json, ':');
}

static int take_plain(reader *r, const char *key, char *out, size_t room) {
  size_t length;
  if (!take_key(r, key) || !bd_rt_json_string(&r->json, r->text, &length) ||
      !is_plain(r->text, length, room))
    return 0;
  memcpy(out, r->text, length + 1);
  return 1;
}

static int digit_of(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int take_bytes(reader *r, const char *key, unsigned char *out, size_t bytes) {
  size_t length;
  if (!take_key(r, key) || !bd_rt_json_string(&r->json, r->text, &length) || length != 2 * bytes)
    return 0;
  for (size_t i = 0; i < bytes; i++) {
    const int high = digit_of(r->text[2 * i]), low = digit_of(r->text[2 * i + 1]);
    if (high < 0 || low < 0) return 0;
    out[i] = (unsigned char)(high << 4 | low);
  }
  return 1;
}

static int take_ignored(reader *r, const char *key) {
  return bd_rt_json_take(&r->json, ',') && take_key(r, key) &&
         bd_rt_json_skip(&r->json, r->text, 1);
}

static int take_choice(reader *r, bd_tune_choice *out) {
  memset(out, 0, sizeof *out);
  return bd_rt_json_take(&r->json, '{') &&
         take_plain(r, "product", out->product, sizeof out->product) &&
         bd_rt_json_take(&r->json, ',') &&
         take_bytes(r, "algorithm", out->algorithm, sizeof out->algorithm) &&
         take_ignored(r, "seconds") && take_ignored(r, "first_seconds") &&
         bd_rt_json_take(&r->json, '}');
}

// What is wrong, or NULL.
static const char *take_choices(reader *r) {
  bd_tune_table *const t = r->table;
  int64_t capacity = 0;
  if (!take_key(r, "products") || !bd_rt_json_take(&r->json, '['))
    return "it has no list of products";
  if (bd_rt_json_take(&r->json, ']')) return NULL;
  do {
    if (t->count == BD_TUNE_MOST) return "it has too many products";
    if (t->count == capacity) {
      capacity = capacity ? 2 * capacity : 64;
      bd_tune_choice *const more = realloc(t->choices, (size_t)capacity * sizeof *more);
      if (!more) return "its products do not fit into memory";
      t->choices = more;
    }
    bd_tune_choice *const c = &t->choices[t->count];
    if (!take_choice(r, c)) return "a product is malformed";
    if (t->count > 0 && strcmp(c[-1].product, c->product) >= 0)
      return "its products are not in order";
    t->count++;
  } while (bd_rt_json_take(&r->json, ','));
  return bd_rt_json_take(&r->json, ']') ? NULL : "its list of products does not end";
}

static const char *take_file(reader *r) {
  int64_t version, library;
  char device[BD_TUNE_DEVICE_BYTES];
  unsigned char sum[SUM_BYTES];
  uint64_t told = 0;
  if (!bd_rt_json_take(&r->json, '{') || !take_key(r, "braid_tune") ||
      !bd_rt_json_whole(&r->json, &version))
    return "it is no file of --tune";
  if (version != VERSION) return "another version of braid wrote it";
  if (!bd_rt_json_take(&r->json, ',') || !take_plain(r, "device", device, sizeof device) ||
      !bd_rt_json_take(&r->json, ',') || !take_key(r, "cublaslt") ||
      !bd_rt_json_whole(&r->json, &library) || !bd_rt_json_take(&r->json, ','))
    return "it does not say what it was made with";
  init_maker(&r->maker, device, library);
  const char *const wrong = take_choices(r);
  if (wrong) return wrong;
  if (!bd_rt_json_take(&r->json, ',') || !take_bytes(r, "sum", sum, sizeof sum) ||
      !bd_rt_json_take(&r->json, '}'))
    return "its end is missing";
  while (r->json.at < r->json.end && *r->json.at == '\n')
    r->json.at++;
  if (r->json.at < r->json.end) return "something follows its end";
  for (int i = 0; i < SUM_BYTES; i++)
    told = told << 8 | sum[i];
  return told == sum_of(&r->maker, r->table) ? NULL : "its sum is another";
}

static int refuse(const char *path, const char *why, char *message, size_t message_bytes) {
  snprintf(message, message_bytes, "%s: %s; " REMEDY, path, why);
  return BD_RT_EXIT_DATA;
}

static int parse(reader *r, const char *path, const bd_tune_maker *maker, char *message,
                 size_t message_bytes) {
  char why[2 * BD_TUNE_DEVICE_BYTES + 128];
  const char *wrong = take_file(r);
  if (!wrong &&
      (strcmp(r->maker.device, maker->device) != 0 || r->maker.library != maker->library)) {
    snprintf(why, sizeof why,
             "it is of %s with cuBLASLt %" PRId64 ", this is %s with cuBLASLt %" PRId64,
             r->maker.device, r->maker.library, maker->device, maker->library);
    wrong = why;
  }
  return wrong ? refuse(path, wrong, message, message_bytes) : 0;
}

static int read_open(int fd, const char *path, const bd_tune_maker *maker, bd_tune_table *out_table,
                     char *message, size_t message_bytes) {
  struct stat about;
  if (fstat(fd, &about) || !S_ISREG(about.st_mode))
    return refuse(path, "it is no regular file", message, message_bytes);
  if (about.st_size > MOST_FILE_BYTES)
    return refuse(path, "it is too large for a file of --tune", message, message_bytes);
  const size_t bytes = (size_t)about.st_size;
  char *const data = malloc(2 * bytes + 2);
  int status = BD_RT_EXIT_EXTERNAL;
  if (!data) {
    snprintf(message, message_bytes, "%s: out of memory", path);
  } else if (!bd_rt_read_at(fd, data, about.st_size, 0)) {
    snprintf(message, message_bytes, "%s: cannot be read", path);
  } else {
    reader r = {.json = {data, data + bytes}, .text = data + bytes + 1, .table = out_table};
    status = parse(&r, path, maker, message, message_bytes);
  }
  free(data);
  return status;
}

int bd_tune_read(const char *path, const bd_tune_maker *maker, bd_tune_table *out_table,
                 int *out_exists, char *message, size_t message_bytes) {
  // Opening a pipe for reading alone would wait for a writer.
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  *out_table = (bd_tune_table){0};
  *out_exists = fd >= 0;
  if (fd < 0 && errno == ENOENT) return 0;
  if (fd < 0) {
    snprintf(message, message_bytes, "%s: %s", path, strerror(errno));
    return BD_RT_EXIT_EXTERNAL;
  }
  const int status = read_open(fd, path, maker, out_table, message, message_bytes);
  close(fd);
  if (status) bd_tune_free(out_table);
  return status;
}

static void print(FILE *out, const bd_tune_maker *maker, const bd_tune_table *table) {
  fprintf(out, "{\n  \"braid_tune\": %d,\n  \"device\": \"%s\",\n  \"cublaslt\": %" PRId64 ",\n",
          VERSION, maker->device, maker->library);
  fputs("  \"products\": [", out);
  for (int64_t i = 0; i < table->count; i++) {
    const bd_tune_choice *const c = &table->choices[i];
    fprintf(out, "%s\n    {\"product\": \"%s\", \"algorithm\": \"", i ? "," : "", c->product);
    for (size_t b = 0; b < sizeof c->algorithm; b++)
      fprintf(out, "%02x", c->algorithm[b]);
    fprintf(out, "\", \"seconds\": %.3g, \"first_seconds\": %.3g}", c->seconds, c->first_seconds);
  }
  fprintf(out, "\n  ],\n  \"sum\": \"%016" PRIx64 "\"\n}\n", sum_of(maker, table));
}

int bd_tune_write(const char *path, const bd_tune_maker *maker, const bd_tune_table *table,
                  char *message, size_t message_bytes) {
  char partial[MOST_PATH];
  int error = 0;
  if (table->count > BD_TUNE_MOST) {
    snprintf(message, message_bytes, "--tune is for at most %d matrix products, these are %" PRId64,
             BD_TUNE_MOST, table->count);
    return BD_RT_EXIT_EXTERNAL;
  }
  const int length = snprintf(partial, sizeof partial, "%s.partial", path);
  FILE *const out = length < MOST_PATH ? fopen(partial, "w") : NULL;
  if (!out) {
    error = length < MOST_PATH ? errno : ENAMETOOLONG;
  } else {
    print(out, maker, table);
    if (ferror(out) || fflush(out) || fsync(fileno(out))) error = errno ? errno : EIO;
    if (fclose(out) && !error) error = errno;
    if (!error && rename(partial, path)) error = errno;
    if (error) unlink(partial);
  }
  if (!error) return 0;
  snprintf(message, message_bytes, "%s: cannot be written: %s", path, strerror(error));
  return BD_RT_EXIT_EXTERNAL;
}

// Choices for one product keep the order in which they lie.
static int by_product(const void *a, const void *b) {
  const bd_tune_choice *const x = *(const bd_tune_choice *const *)a,
                              *const y = *(const bd_tune_choice *const *)b;
  const int order = strcmp(x->product, y->product);
  return order ? order : x < y ? -1 : x > y;
}

int bd_tune_sort(bd_tune_table *table) {
  const size_t count = (size_t)table->count;
  const bd_tune_choice **const order = malloc((count + 1) * sizeof *order);
  bd_tune_choice *const sorted = malloc((count + 1) * sizeof *sorted);
  if (!order || !sorted) {
    free(order);
    free(sorted);
    return 0;
  }
  for (size_t i = 0; i < count; i++)
    order[i] = &table->choices[i];
  qsort(order, count, sizeof *order, by_product);
  int64_t kept = 0;
  for (size_t i = 0; i < count; i++)
    if (kept == 0 || strcmp(sorted[kept - 1].product, order[i]->product) != 0)
      sorted[kept++] = *order[i];
  free(order);
  free(table->choices);
  *table = (bd_tune_table){kept, sorted};
  return 1;
}

static int compare_name(const void *name, const void *choice) {
  return strcmp(name, ((const bd_tune_choice *)choice)->product);
}

const bd_tune_choice *bd_tune_find(const bd_tune_table *table, const char *product) {
  if (table->count == 0) return NULL;
  return bsearch(product, table->choices, (size_t)table->count, sizeof *table->choices,
                 compare_name);
}

void bd_tune_free(bd_tune_table *table) {
  free(table->choices);
  *table = (bd_tune_table){0};
}
