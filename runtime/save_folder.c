// What --save asks for: one file of weights, or a folder like the one that they came from.
#include "runtime/backend.h"
#include "runtime/json.h"
#include "runtime/master.h"
#include "runtime/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_PATH = 4096 };

typedef struct listing {
  bd_rt_stored *tensors; // by file, then name
  int count;
} listing;

static int by_stored_name(const void *a, const void *b) {
  return strcmp(((const bd_rt_stored *)a)->name, ((const bd_rt_stored *)b)->name);
}

static int by_file(const void *a, const void *b) {
  const bd_rt_stored *const x = a, *const y = b;
  return x->file != y->file ? (x->file > y->file) - (x->file < y->file) : by_stored_name(a, b);
}

// The stored tensors of the model, each once.
static listing list_stored(const bd_rt *rt) {
  listing list = {0};
  int all = 0;
  for (int s = 0; s < rt->program->stages; s++)
    for (int i = 0; i < rt->program->stage[s].weight_count; i++)
      all += bd_rt_stored_count(&rt->program->stage[s].weights[i]);
  list.tensors = bd_rt_allocate((size_t)all, sizeof *list.tensors);
  for (int s = 0, at = 0; s < rt->program->stages; s++)
    for (int i = 0; i < rt->program->stage[s].weight_count; i++) {
      const bd_rt_weight *const weight = &rt->program->stage[s].weights[i];
      for (int number = 0; number < bd_rt_stored_count(weight); number++)
        list.tensors[at++] = (bd_rt_stored){weight, number, bd_rt_stored_name(weight, number), 0};
    }
  qsort(list.tensors, (size_t)all, sizeof *list.tensors, by_stored_name);
  for (int i = 0; i < all; i++)
    if (i == 0 || by_stored_name(&list.tensors[i], &list.tensors[list.count - 1]))
      list.tensors[list.count++] = list.tensors[i];
  return list;
}

// Names and files as the source has them.
static void follow_source(const bd_rt_source *source, listing *list) {
  for (int i = 0; i < list->count; i++) {
    bd_rt_stored *const stored = &list->tensors[i];
    const bd_rt_tensor *const tensor = bd_rt_source_find(source, stored->name, &stored->file);
    if (tensor) stored->name = tensor->name;
  }
  qsort(list->tensors, (size_t)list->count, sizeof *list->tensors, by_file);
}

// `folder` ends in a slash. On rank 0; 0 or an errno.
static int write_index(const char *folder, const bd_rt_source *source, const listing *list) {
  char path[MOST_PATH], partial[MOST_PATH];
  int64_t bytes = 0;
  snprintf(path, sizeof path, "%smodel.safetensors.index.json", folder);
  snprintf(partial, sizeof partial, "%smodel.safetensors.index.json.partial", folder);
  FILE *const out = fopen(partial, "w");
  if (!out) return errno;
  for (int i = 0; i < list->count; i++)
    bytes += bd_rt_stored_elements(list->tensors[i].weight) * 4;
  fprintf(out, "{\n  \"metadata\": {\"total_size\": %lld},\n  \"weight_map\": {", (long long)bytes);
  for (int i = 0; i < list->count; i++) {
    fputs(i ? ",\n    " : "\n    ", out);
    bd_rt_json_write(out, list->tensors[i].name);
    fputs(": ", out);
    bd_rt_json_write(out, source->names[list->tensors[i].file]);
  }
  fputs("\n  }\n}\n", out);
  int error = ferror(out) || fflush(out) || fsync(fileno(out)) ? EIO : 0;
  if (fclose(out) && !error) error = errno;
  if (!error && rename(partial, path)) error = errno;
  if (error) unlink(partial);
  return error;
}

// A regular file that is there; what is not there is not missed. 0 or an errno.
static int copy_file(const char *from_folder, const char *to_folder, const char *name) {
  char from[MOST_PATH], to[MOST_PATH], piece[1 << 14];
  struct stat a, b;
  snprintf(from, sizeof from, "%s/%s", from_folder, name);
  snprintf(to, sizeof to, "%s%s", to_folder, name);
  if (stat(from, &a) || !S_ISREG(a.st_mode)) return 0;
  if (!stat(to, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino) return 0;
  FILE *const in = fopen(from, "r"), *const out = in ? fopen(to, "w") : NULL;
  int error = in && out ? 0 : errno;
  for (size_t got = 1; !error && got;) {
    got = fread(piece, 1, sizeof piece, in);
    if (ferror(in) || fwrite(piece, 1, got, out) != got) error = EIO;
  }
  if (out && fclose(out) && !error) error = errno;
  if (in) fclose(in);
  return error;
}

// What transformers needs beside the weights.
static int copy_others(const char *from_folder, const char *to_folder) {
  static const char *const names[] = {"config.json",
                                      "generation_config.json",
                                      "preprocessor_config.json",
                                      "tokenizer.json",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "added_tokens.json",
                                      "vocab.json",
                                      "merges.txt",
                                      "vocab.txt",
                                      "tokenizer.model",
                                      "spiece.model"};
  int error = 0;
  for (size_t i = 0; i < sizeof names / sizeof names[0] && !error; i++)
    error = copy_file(from_folder, to_folder, names[i]);
  return error;
}

// The files of a folder, then what tells how they belong together.
static int save_folder(bd_rt *rt, const char *folder, listing *list) {
  const bd_rt_source *const source = &rt->source;
  char path[MOST_PATH], message[1024] = "";
  int status = 0, first = 0;
  if (rt->rank == 0) mkdir(folder, 0777); // where that fails its first file says why
  if (source->folder) follow_source(source, list);
  for (int file = 0; file == 0 || file < source->count; file++) {
    const char *const name = source->folder ? source->names[file] : "model.safetensors";
    int end = first;
    while (end < list->count && list->tensors[end].file == file)
      end++;
    snprintf(path, sizeof path, "%s%s", folder, name);
    status = bd_rt_save_file(rt, path, end - first, list->tensors + first);
    if (status) return status;
    first = end;
  }
  if (rt->rank == 0 && source->folder) {
    int error = source->indexed ? write_index(folder, source, list) : 0;
    if (!error) error = copy_others(source->folder, folder);
    if (error) {
      snprintf(message, sizeof message, "%s: cannot be written: %s", folder, strerror(error));
      status = BD_RT_EXIT_EXTERNAL;
    }
  }
  return bd_rt_agree(rt, status, message);
}

int bd_rt_weights_save_check(bd_rt *rt) {
  char path[MOST_PATH], message[1024] = "";
  struct stat about;
  int status = 0;
  if (rt->rank == 0 && rt->options.save && bd_rt_options_name_folder(rt->options.save) &&
      rt->source.indexed) {
    snprintf(path, sizeof path, "%smodel.safetensors", rt->options.save);
    if (!stat(path, &about)) {
      snprintf(message, sizeof message,
               "%s: its model.safetensors would be read in place of the shards to save",
               rt->options.save);
      status = BD_RT_EXIT_EXTERNAL;
    }
  }
  return bd_rt_agree(rt, status, message);
}

int bd_rt_weights_save(bd_rt *rt) {
  const char *const path = rt->options.save;
  listing list = list_stored(rt);
  for (int i = 0; i < rt->stage->weight_count; i++)
    bd_rt_load_plain(rt, &rt->stage->weights[i]);
  const int status = bd_rt_options_name_folder(path)
                         ? save_folder(rt, path, &list)
                         : bd_rt_save_file(rt, path, list.count, list.tensors);
  free(list.tensors);
  return status;
}
