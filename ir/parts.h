// A matrix product and the collective that sums its result over a mesh axis, cut in parts: while
// the sum of one part is under way the next part is computed. Programs for GPUs do that where a
// plan says so (docs/plan.md, `parts`).
//
// A part is a share of the product's rows: of what the leading dimensions of the result run over,
// those that it has in common with one factor, samples and tokens. Where the collective scatters
// one of these dimensions, every rank is given its share of each part, so that the share of a part
// is a part of the share; the result of the product, which the collective alone reads, then lies
// part by part, and in each rank by rank.
#ifndef BD_IR_PARTS_H
#define BD_IR_PARTS_H
#include "ir/module.h"

#define BD_MAX_PARTS 8 // of a product; a power of two

// An op's attribute that says in how many parts it is to be done.
#define BD_PARTS_ATTR "parts"

typedef struct bd_parts {
  int count;      // 1: the product is done whole, and the rest says nothing
  int collective; // the op that sums the result
  int sum;        // an op in between that adds another tensor to the product, or -1
  int prefix;     // leading dimensions of the result that are cut
  int factor;     // the factor that has them: 0 or 1
  // The rows are `samples` times as many; each sample's lie in `blocks` equal ones, one for each
  // rank that is given a share (1: all are given everything), and a part takes an equal chunk of
  // every block: of `chunks` of one sample, or, where that is 1, of `runs` samples whole.
  int64_t samples, blocks, chunks, runs;
  int64_t rows;    // of a chunk
  int64_t columns; // elements of a row
} bd_parts;

// Whether `count` is a number of parts: 1, 2, 4 or 8.
bool bd_parts_valid(int64_t count);

// How op `product` of an spmd function can be done in `count` parts: as it asks for, or whole where
// the program is none for GPUs, it is no product whose result a collective sums over a mesh axis
// right away (or after it is added to another tensor of the same form), its rows are not so many
// times as many, or ranks' shares of them differ.
bd_parts bd_parts_of(const bd_module *module, const bd_function *function, int product, int count);

// The same with as many parts as the op's attribute says; whole where that is no number of parts.
bd_parts bd_parts_asked(const bd_module *module, const bd_function *function, int product);
#endif
