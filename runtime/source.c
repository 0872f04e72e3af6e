#include "runtime/source.h"

#include "runtime/json.h"
#include "runtime/read_at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_INDEX = 100000000, MOST_FILES = 1000, MOST_DEPTH = 8, MOST_PATH = 4096 };

static const char single_name[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";

// One member of "weight_map".
typedef struct entry {
  char *tensor;
  int file;
} entry;

typedef struct reader {
  bd_rt_source *source;
  bd_rt_json json;
  char *text; // scratch for one string, as long as the index
  entry *entries;
  int count, capacity;
  char *message;
  size_t message_bytes;
} reader;

static int wrong(const reader *r, const char *name, const char *why) {
  snprintf(r->message, r->message_bytes, "%s/%s: %s", r->source->folder, name, why);
  return BD_RT_EXIT_DATA;
}

static int path_of(const reader *r, const char *name, char path[MOST_PATH]) {
  const int length = snprintf(path, MOST_PATH, "%s/%s", r->source->folder, name);
  return length < MOST_PATH ? 0 : wrong(r, name, "a path too long");
}

static int is_plain(const char *name) {
  return name[0] && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..");
}

// A link must lead to a file beside it, or to where Hugging Face's cache keeps the files of its
// snapshots.
static int check_link(const reader *r, const char *name, const char *path) {
  static const char blobs[] = "../../blobs/";
  char target[MOST_PATH], beside[MOST_PATH];
  struct stat about;
  if (lstat(path, &about) || !S_ISLNK(about.st_mode)) return 0;
  const ssize_t length = readlink(path, target, sizeof target - 1);
  target[length < 0 ? 0 : length] = 0;
  const int cached = !strncmp(target, blobs, sizeof blobs - 1);
  if (!is_plain(cached ? target + sizeof blobs - 1 : target) || path_of(r, target, beside) ||
      lstat(beside, &about) || !S_ISREG(about.st_mode))
    return wrong(r, name, "is a link to no file of its folder");
  return 0;
}

// The number of the folder's file `name`, listed if it is new, or -1.
static int list_file(bd_rt_source *source, const char *name) {
  for (int i = source->count - 1; i >= 0; i--)
    if (!strcmp(source->names[i], name)) return i;
  if (source->count == MOST_FILES) return -1;
  char *const copy = strdup(name);
  if (!copy) return -1;
  source->names[source->count] = copy;
  source->files[source->count] = (bd_rt_file){.fd = -1};
  return source->count++;
}

static int add_entry(reader *r, char *tensor, int file) {
  if (r->count == r->capacity) {
    r->capacity = r->capacity ? 2 * r->capacity : 64;
    entry *const more = realloc(r->entries, (size_t)r->capacity * sizeof *more);
    if (!more) return 0;
    r->entries = more;
  }
  r->entries[r->count++] = (entry){tensor, file};
  return 1;
}

static int read_member(reader *r) {
  size_t length;
  if (!bd_rt_json_string(&r->json, r->text, &length) || !bd_rt_json_take(&r->json, ':'))
    return wrong(r, index_name, "\"weight_map\" is malformed");
  char *const tensor = strdup(r->text);
  if (!tensor || !bd_rt_json_string(&r->json, r->text, &length) || strlen(r->text) != length ||
      !is_plain(r->text)) {
    free(tensor);
    return wrong(r, index_name, "a file of \"weight_map\" is no plain file name");
  }
  const int file = list_file(r->source, r->text);
  if (file >= 0 && add_entry(r, tensor, file)) return 0;
  free(tensor);
  return wrong(r, index_name, "more than 1000 files, or no memory");
}

static int read_map(reader *r) {
  if (!bd_rt_json_take(&r->json, '{')) return wrong(r, index_name, "\"weight_map\" is no object");
  if (bd_rt_json_take(&r->json, '}')) return 0;
  do {
    const int status = read_member(r);
    if (status) return status;
  } while (bd_rt_json_take(&r->json, ','));
  return bd_rt_json_take(&r->json, '}') ? 0 : wrong(r, index_name, "malformed");
}

static int read_members(reader *r) {
  size_t length;
  int maps = 0;
  if (!bd_rt_json_take(&r->json, '{')) return wrong(r, index_name, "no object");
  do {
    if (!bd_rt_json_string(&r->json, r->text, &length) || !bd_rt_json_take(&r->json, ':'))
      return wrong(r, index_name, "malformed");
    const int map = !strcmp(r->text, "weight_map");
    maps += map;
    const int status = map ? read_map(r)
                       : bd_rt_json_skip(&r->json, r->text, MOST_DEPTH)
                           ? 0
                           : wrong(r, index_name, "malformed");
    if (status) return status;
  } while (bd_rt_json_take(&r->json, ','));
  if (!bd_rt_json_take(&r->json, '}')) return wrong(r, index_name, "malformed");
  return maps == 1 && r->count ? 0 : wrong(r, index_name, "needs one \"weight_map\" with tensors");
}

static int parse_index(reader *r, int fd) {
  struct stat about;
  if (fstat(fd, &about) || !S_ISREG(about.st_mode) || about.st_size > MOST_INDEX)
    return wrong(r, index_name, "no regular file of at most 100 MB");
  char *const text = malloc((size_t)about.st_size + 1);
  r->text = malloc((size_t)about.st_size + 1);
  int status = 0;
  if (!text || !r->text || !bd_rt_read_at(fd, text, about.st_size, 0)) {
    status = wrong(r, index_name, "cannot be read");
  } else {
    const int marked = about.st_size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3); // as UTF-8
    r->json = (bd_rt_json){text + 3 * marked, text + about.st_size};
    status = read_members(r);
  }
  free(text);
  free(r->text);
  return status;
}

static int read_index(reader *r) {
  char path[MOST_PATH];
  int status = path_of(r, index_name, path);
  if (!status) status = check_link(r, index_name, path);
  if (status) return status;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return wrong(r, index_name, strerror(errno));
  status = parse_index(r, fd);
  close(fd);
  return status;
}

static int open_files(reader *r) {
  char path[MOST_PATH];
  int status = 0;
  for (int i = 0; i < r->source->count && !status; i++) {
    status = path_of(r, r->source->names[i], path);
    if (!status) status = check_link(r, r->source->names[i], path);
    if (!status) status = bd_rt_file_open(path, &r->source->files[i], r->message, r->message_bytes);
  }
  return status;
}

static int by_tensor(const void *a, const void *b) {
  return strcmp(((const entry *)a)->tensor, ((const entry *)b)->tensor);
}

// Every entry is a tensor of its file, and there are no others.
static int check_entries(const reader *r) {
  int64_t tensors = 0;
  for (int i = 0; i < r->source->count; i++)
    tensors += r->source->files[i].count;
  qsort(r->entries, (size_t)r->count, sizeof *r->entries, by_tensor);
  for (int i = 0; i < r->count; i++) {
    const entry *const e = &r->entries[i];
    if (i > 0 && !strcmp(e[-1].tensor, e->tensor))
      return wrong(r, index_name, "a tensor's name occurs twice");
    if (!bd_rt_file_named(&r->source->files[e->file], e->tensor))
      return wrong(r, index_name, "a tensor is not in the file it is said to be in");
  }
  return tensors == r->count ? 0 : wrong(r, index_name, "a file has a tensor that is not named");
}

static int open_folder(reader *r) {
  bd_rt_source *const source = r->source;
  char path[MOST_PATH];
  struct stat about;
  source->files = calloc(MOST_FILES, sizeof *source->files);
  source->names = calloc(MOST_FILES, sizeof *source->names);
  if (!source->files || !source->names) return wrong(r, "", "out of memory");
  int status = path_of(r, single_name, path);
  if (status) return status;
  if (!lstat(path, &about))
    return list_file(source, single_name) ? wrong(r, single_name, "out of memory") : open_files(r);
  status = path_of(r, index_name, path);
  if (status) return status;
  if (lstat(path, &about))
    return wrong(r, single_name,
                 "is not there, nor an index of shards; weights of other formats "
                 "must be converted");
  source->indexed = 1;
  status = read_index(r);
  if (!status) status = open_files(r);
  return status ? status : check_entries(r);
}

int bd_rt_source_open(const char *path, bd_rt_source *out_source, char *message,
                      size_t message_bytes) {
  struct stat about;
  *out_source = (bd_rt_source){0};
  reader r = {.source = out_source, .message = message, .message_bytes = message_bytes};
  int status;
  if (!stat(path, &about) && S_ISDIR(about.st_mode)) {
    out_source->folder = path;
    status = open_folder(&r);
  } else {
    out_source->files = calloc(1, sizeof *out_source->files);
    status = out_source->files ? bd_rt_file_open(path, out_source->files, message, message_bytes)
                               : BD_RT_EXIT_EXTERNAL;
    out_source->count = !status;
  }
  for (int i = 0; i < r.count; i++)
    free(r.entries[i].tensor);
  free(r.entries);
  if (status) bd_rt_source_close(out_source);
  return status;
}

void bd_rt_source_close(bd_rt_source *source) {
  for (int i = 0; i < source->count; i++) {
    if (source->files[i].fd >= 0) bd_rt_file_close(&source->files[i]);
    if (source->names) free(source->names[i]);
  }
  free(source->files);
  free(source->names);
  *source = (bd_rt_source){0};
}

const bd_rt_tensor *bd_rt_source_find(const bd_rt_source *source, const char *name, int *out_file) {
  return bd_rt_files_find(source->files, source->count, name, out_file);
}
