// What attention's kernels share. A block takes a tile of 64 rows of one head of one sample after
// another; the scores of 64 queries and 64 keys exist only in its registers and shared memory.
#ifndef BD_CODEGEN_KERNEL_ATTENTION_H
#define BD_CODEGEN_KERNEL_ATTENTION_H
#include "codegen/kernel/tile.h"

// An operand or result [batch, row, head, width], or a number per row of a head (width 0).
typedef struct bd_heads {
  bd_access access;
  int64_t batch, row, head, width; // strides in elements; of a row
} bd_heads;

typedef struct bd_attention {
  bd_gen *g;
  bd_tiles tiles;
  int64_t tq, tk;        // queries on this rank, keys
  int64_t width, values; // of a head of queries and keys, and of values
  int64_t queries;       // on all ranks
  int64_t group;         // query heads on this rank per key-value head there
  bool causal;
  int64_t window; // keys up to its own that a query sees; 0: all
  bool few;       // random blocks: bd_attention_has_few_blocks
  double scale;
  double softcap;    // of scores; 0: they stay
  float dropout;     // its probability
  LLVMValueRef keep; // f32, what is kept is multiplied by; where there is dropout
  uint32_t site;
  LLVMValueRef batches, heads, kv_heads; // that this rank holds
  LLVMValueRef first_sample, first_head; // global
  LLVMValueRef first_query;              // global, i64; NULL: 0, all are here
  int64_t places, far;                   // of biases by relative position; 0: there are none
  bd_access stored_biases;
  LLVMValueRef biases; // of the head in work, f32, shared
  // The tile in work:
  LLVMValueRef batch, head, kv_head;
  // What dropout keeps of the square in work (attention_dropout.c), i32 variable, of keys by
  // queries if `turned`:
  LLVMValueRef kept;
  bool turned;
} bd_attention;

// Threads of a block.
int bd_attention_threads(const bd_gen *g);
// `query`, `key`: operands that are shaped so.
BD_NODISCARD bd_status bd_attention_open(bd_gen *g, int query, int key, bd_attention *out);
// A loop that the op's index map does not have: over `scale` elements per index of `like`.
int bd_attention_loop(bd_gen *g, const bd_gen_loop *like, int64_t scale);
bd_heads bd_attention_in(bd_attention *a, int operand);
bd_heads bd_attention_out(bd_attention *a, int result);
// The rows from `first` on of the tile's head (`head` of it), of `total`.
bd_rows bd_attention_rows(bd_attention *a, const bd_heads *tensor, LLVMValueRef head,
                          LLVMValueRef first, int64_t total);
// The address of a row's number; that of the last row when there is none.
LLVMValueRef bd_attention_number(bd_attention *a, const bd_heads *tensor, LLVMValueRef head,
                                 LLVMValueRef row, int64_t total);
LLVMValueRef bd_attention_load(bd_attention *a, LLVMValueRef address);

// Runs `body` for each tile of `total` rows of `heads` heads on one of the blocks. `descending`:
// the last tiles first, those with the most work.
typedef void (*bd_attention_body)(bd_attention *a, LLVMValueRef head, LLVMValueRef first,
                                  void *user);
void bd_attention_tiles(bd_attention *a, LLVMValueRef heads, int64_t total, bool descending,
                        bd_attention_body body, void *user);

// The global number of a query of this rank, i64.
LLVMValueRef bd_attention_place(bd_attention *a, LLVMValueRef query);
// Where a loop over the queries that may see some of the 64 keys from `key` on begins, at a tile of
// queries, and where it ends; i64. None may where that is not behind the beginning.
LLVMValueRef bd_attention_begin(bd_attention *a, LLVMValueRef key);
LLVMValueRef bd_attention_last(bd_attention *a, LLVMValueRef key);
// Whether a query sees a key (both exist), i1.
LLVMValueRef bd_attention_sees(bd_attention *a, LLVMValueRef query, LLVMValueRef key);
// Where there is dropout: draws its masks for the square of 64 queries and 64 keys from `query` and
// `key` on, whose rows are keys if `turned`; and what the probability at one of the thread's rows
// and columns of it is multiplied by.
void bd_attention_draw(bd_attention *a, LLVMValueRef query, LLVMValueRef key, bool turned);
LLVMValueRef bd_attention_kept(bd_attention *a, int row, int column);
// Whether the numbers of a sample's random blocks, those of padding apart, have 31 bits.
bool bd_attention_has_few_blocks(int64_t heads, int64_t queries, int64_t keys);
// Where a loop over the keys that the 64 queries from `first` on see begins, at a tile of keys, and
// where it ends; i64. Of the first tile some of the queries may see none.
LLVMValueRef bd_attention_first(bd_attention *a, LLVMValueRef first);
LLVMValueRef bd_attention_end(bd_attention *a, LLVMValueRef first);
// The kernel that makes the product of each row of `out` and its gradient. `heads`: the loop over
// them.
void bd_attention_row_products(bd_attention *a, int heads, const bd_heads *dout,
                               const bd_heads *out, const bd_heads *to);
// Where there are sinks, operand `operand`: that of the head in work, f32.
LLVMValueRef bd_attention_sink(bd_attention *a, int operand);
// The score of a query and a key from their product; and where scores are capped, its derivative by
// what it was before.
LLVMValueRef bd_attention_score(bd_attention *a, LLVMValueRef product, LLVMValueRef query,
                                LLVMValueRef key);
LLVMValueRef bd_attention_slope(bd_attention *a, LLVMValueRef score);
#endif
