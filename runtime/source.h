// Where weights come from: one safetensors file, or a Hugging Face folder with model.safetensors or
// the shards that model.safetensors.index.json names.
#ifndef BD_RT_SOURCE_H
#define BD_RT_SOURCE_H
#include "runtime/safetensors.h"

typedef struct bd_rt_source {
  const char *folder; // as it was given, or NULL: one file
  int indexed;        // the folder has an index
  int count;
  bd_rt_file *files;
  char **names; // of the folder's files, plain
} bd_rt_source;

// `path` must outlive the source. An index and its shards must say the same, and each file lie in
// the folder. 0, or a BD_RT_EXIT status with the reason in `message`; nothing is open then.
int bd_rt_source_open(const char *path, bd_rt_source *out_source, char *message,
                      size_t message_bytes);
void bd_rt_source_close(bd_rt_source *source);
// As bd_rt_files_find, over all its files.
const bd_rt_tensor *bd_rt_source_find(const bd_rt_source *source, const char *name, int *out_file);
#endif
