// Megatron's indexed data sets: NAME.bin holds the tokens of all documents, one after another,
// NAME.idx says of what type they are and where each sequence begins.
#ifndef BD_RT_MEGATRON_H
#define BD_RT_MEGATRON_H
#include <stddef.h>
#include <stdint.h>

enum { BD_RT_MEGATRON_PATH = 4096 }; // bytes of a path with its end

// Whether `path` names such a set: it is NAME.idx, or NAME.bin beside a NAME.idx. Then both paths,
// each of BD_RT_MEGATRON_PATH bytes, are filled in.
int bd_rt_megatron_find(const char *path, char *out_index, char *out_tokens);

// Checks an index against the bytes of its tokens: all that its header promises is there, the
// sequences lie one behind the other from the first byte to the last, the documents are runs of
// them. Reads it piece by piece, whatever its length. `whole`: all of it, not the header alone.
// 0, or BD_RT_EXIT_DATA with the reason in `message`. (megatron/core/datasets/indexed_dataset.py)
int bd_rt_megatron_read(const char *index, int64_t tokens_bytes, int whole, int *out_token_bytes,
                        char *message, size_t message_bytes);
#endif
