// The weights of a Hugging Face folder: model.safetensors, or the shards that
// model.safetensors.index.json names. Read strictly: each tensor stands in one file, the one that
// the index says, and every file lies in the folder.
#ifndef BD_FRONTEND_HF_FOLDER_H
#define BD_FRONTEND_HF_FOLDER_H
#include "frontend/safetensors.h"

typedef struct bd_hf_folder {
  int count; // 0: a folder without weights
  const char **paths;
  bd_safetensors *files; // `open` of them are open
  int open;
} bd_hf_folder;

// The caller closes `*out_folder`, whatever comes of it; bd_hf_folder_close fits bd_own.
// Errors: BD_INVALID naming the file and, in the index, the place.
BD_NODISCARD bd_status bd_hf_folder_open(bd_ctx *ctx, const char *folder, bd_hf_folder *out_folder);
void bd_hf_folder_close(void *folder);

// NULL: none. `out_file` may be NULL.
const bd_stored_tensor *bd_hf_folder_find(const bd_hf_folder *folder, const char *name,
                                          const bd_safetensors **out_file);
#endif
