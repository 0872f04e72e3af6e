#include "codegen/contract.h"

#include <assert.h>
#include <string.h>

enum { A, B, OUT, TENSORS };

// The roles that a letter can have, given which operand comes first.
static int kind_of(const bd_contract_letter *letter, bool swapped) {
  bool first = letter->in[swapped ? B : A], second = letter->in[swapped ? A : B];
  if (first && second) return letter->in[OUT] ? BD_CONTRACT_BATCH : BD_CONTRACT_K;
  assert(letter->in[OUT]);
  return first ? BD_CONTRACT_M : BD_CONTRACT_N;
}

static int64_t stride_of(const bd_contract *c, int letter, int tensor) {
  int from = c->swapped && tensor != OUT ? !tensor : tensor;
  return c->letter[letter].stride[from];
}

// Which tensors (in the product's order) a group of the kind lies in.
static bool group_in(int kind, int tensor) {
  static const bool in[BD_CONTRACT_GROUPS][TENSORS] = {
      {true, true, true}, {true, false, true}, {false, true, true}, {true, true, false}};
  return in[kind][tensor];
}

bool bd_contract_is_trivial(const bd_contract_letter *letter) {
  return letter->padded == 1 && letter->full;
}

static bool may_be_in(const bd_contract *c, int letter, int kind) {
  const bd_contract_letter *l = &c->letter[letter];
  if (bd_contract_is_trivial(l) || kind_of(l, c->swapped) != kind) return false;
  return kind == BD_CONTRACT_BATCH || !l->looped;
}

// The letter that continues the group outwards: its stride is the group's extent in every tensor.
static int next_slower(const bd_contract *c, int kind, const bd_contract_group *group,
                       int64_t extent) {
  for (int i = 0; i < c->letter_count; ++i) {
    if (!may_be_in(c, i, kind)) continue;
    bool fits = true;
    for (int t = 0; t < TENSORS; ++t)
      if (group_in(kind, t) && stride_of(c, i, t) != group->stride[t] * extent) fits = false;
    if (fits) return i;
  }
  return -1;
}

// Grows the group outwards from its fastest letter; -1 leaves it empty.
static void fill_group(bd_contract *c, int kind, int fastest) {
  bd_contract_group *group = &c->group[kind];
  *group = (bd_contract_group){0};
  if (fastest < 0) return;
  int found[BD_CONTRACT_LETTERS];
  int64_t extent = 1;
  for (int t = 0; t < TENSORS; ++t)
    group->stride[t] = group_in(kind, t) ? stride_of(c, fastest, t) : 0;
  for (int letter = fastest; letter >= 0; letter = next_slower(c, kind, group, extent)) {
    found[group->count++] = letter;
    extent *= c->letter[letter].padded;
    if (!c->letter[letter].full) break;
  }
  for (int i = 0; i < group->count; ++i)
    group->letter[i] = found[group->count - 1 - i];
}

// Product of the padded extents of a group.
static int64_t extent_of(const bd_contract *contract, bd_contract_group_kind kind) {
  const bd_contract_group *group = &contract->group[kind];
  int64_t extent = 1;
  for (int i = 0; i < group->count; ++i)
    extent *= contract->letter[group->letter[i]].padded;
  return extent;
}

// An empty group's stride is free; else one of the two must be 1.
static bool pair_fits(const bd_contract *c, int x, int y, int tensor) {
  const bd_contract_group *gx = &c->group[x], *gy = &c->group[y];
  return gx->count == 0 || gy->count == 0 || gx->stride[tensor] == 1 || gy->stride[tensor] == 1;
}

static bool product_fits(const bd_contract *c) {
  const bd_contract_group *n = &c->group[BD_CONTRACT_N];
  return (n->count == 0 || n->stride[OUT] == 1) && pair_fits(c, BD_CONTRACT_M, BD_CONTRACT_K, A) &&
         pair_fits(c, BD_CONTRACT_K, BD_CONTRACT_N, B);
}

// The letters that may be fastest in a group; the last candidate is "none".
static int candidates(const bd_contract *c, int kind, int out[BD_CONTRACT_LETTERS + 1]) {
  int count = 0;
  for (int i = 0; i < c->letter_count; ++i)
    if (may_be_in(c, i, kind)) out[count++] = i;
  out[count++] = -1;
  return count;
}

static void try_products(bd_contract *c, bd_contract *best, double *best_size) {
  int m[BD_CONTRACT_LETTERS + 1], n[BD_CONTRACT_LETTERS + 1], k[BD_CONTRACT_LETTERS + 1];
  int m_count = candidates(c, BD_CONTRACT_M, m), n_count = candidates(c, BD_CONTRACT_N, n),
      k_count = candidates(c, BD_CONTRACT_K, k);
  for (int i = 0; i < m_count; ++i)
    for (int j = 0; j < n_count; ++j)
      for (int l = 0; l < k_count; ++l) {
        fill_group(c, BD_CONTRACT_M, m[i]);
        fill_group(c, BD_CONTRACT_N, n[j]);
        fill_group(c, BD_CONTRACT_K, k[l]);
        double size = (double)extent_of(c, BD_CONTRACT_M) * (double)extent_of(c, BD_CONTRACT_N) *
                      (double)extent_of(c, BD_CONTRACT_K);
        if (!product_fits(c) || size <= *best_size) continue;
        *best = *c;
        *best_size = size;
      }
}

static void choose_batch(bd_contract *c) {
  int letters[BD_CONTRACT_LETTERS + 1], best = -1;
  int count = candidates(c, BD_CONTRACT_BATCH, letters);
  int64_t best_extent = 0;
  for (int i = 0; i < count; ++i) {
    fill_group(c, BD_CONTRACT_BATCH, letters[i]);
    int64_t extent = extent_of(c, BD_CONTRACT_BATCH);
    if (extent <= best_extent) continue;
    best = letters[i];
    best_extent = extent;
  }
  fill_group(c, BD_CONTRACT_BATCH, best);
}

static bool is_grouped(const bd_contract *c, int letter) {
  for (int kind = 0; kind < BD_CONTRACT_GROUPS; ++kind)
    for (int i = 0; i < c->group[kind].count; ++i)
      if (c->group[kind].letter[i] == letter) return true;
  return false;
}

static void list_outer(bd_contract *c) {
  for (int summed = 0; summed < 2; ++summed)
    for (int i = 0; i < c->letter_count; ++i) {
      if (bd_contract_is_trivial(&c->letter[i]) || is_grouped(c, i)) continue;
      if ((kind_of(&c->letter[i], c->swapped) == BD_CONTRACT_K) == summed)
        c->outer[c->outer_count++] = i;
    }
}

void bd_contract_plan(int letter_count, const bd_contract_letter *letters,
                      bd_contract *out_contract) {
  bd_contract c = {.letter_count = letter_count};
  assert(letter_count <= BD_CONTRACT_LETTERS);
  memcpy(c.letter, letters, (size_t)letter_count * sizeof *letters);
  double best_size = 0;
  for (int swapped = 0; swapped < 2; ++swapped) {
    c.swapped = swapped;
    try_products(&c, out_contract, &best_size);
  }
  choose_batch(out_contract);
  list_outer(out_contract);
}

static int64_t at_least_one(int64_t value) {
  return value > 0 ? value : 1;
}

bd_contract_strides bd_contract_get_strides(const bd_contract *contract) {
  const bd_contract_group *batch = &contract->group[BD_CONTRACT_BATCH],
                          *m = &contract->group[BD_CONTRACT_M],
                          *n = &contract->group[BD_CONTRACT_N],
                          *k = &contract->group[BD_CONTRACT_K];
  bd_contract_strides s = {.a_m = m->stride[A],
                           .a_k = k->stride[A],
                           .a_batch = batch->stride[A],
                           .b_k = k->stride[B],
                           .b_n = n->stride[B],
                           .b_batch = batch->stride[B],
                           .out_m = m->stride[OUT],
                           .out_batch = batch->stride[OUT]};
  int64_t m_extent = extent_of(contract, BD_CONTRACT_M),
          n_extent = extent_of(contract, BD_CONTRACT_N),
          k_extent = extent_of(contract, BD_CONTRACT_K);
  // The stride of a loop of extent 1 is the row length that the other loop implies.
  if (m->count == 0) s.a_m = s.a_k == 1 || k->count == 0 ? k_extent : 1;
  if (k->count == 0) s.a_k = s.a_m == 1 ? m_extent : 1;
  if (n->count == 0) s.b_n = s.b_k == 1 && k->count > 0 ? k_extent : 1;
  if (k->count == 0) s.b_k = s.b_n == 1 ? n_extent : 1;
  if (m->count == 0) s.out_m = n_extent;
  s.a_m = at_least_one(s.a_m);
  return s;
}
