// The algorithms of a product. They differ in how many parts a sum over k is put together from, and
// so in their bits; in the workspace; and in the time that they pretend to take.
#include "tests/device/fake/matmul.h"

#include <stdatomic.h>
#include <string.h>

enum { FIRST, UNSUPPORTED, IN_PLACE, IN_TWO, IN_THREE, IN_FOUR, VARIANTS, TIMES = 5 };

static atomic_llong pretended_micros, digest;
static atomic_llong in_a_row_micros, last_in_a_row; // of one algorithm

static int parts_of(int variant) {
  return variant < IN_TWO ? 1 : variant - IN_TWO + 2;
}

static uint32_t scheme_of(int variant) {
  return variant == IN_PLACE ? CUBLASLT_REDUCTION_SCHEME_INPLACE
         : variant >= IN_TWO ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                             : CUBLASLT_REDUCTION_SCHEME_NONE;
}

// What must not be taken is the fastest. The others differ from each other, in an order that is
// another for other products and, where BD_FAKE_UNLIKE is set, on other ranks.
static uint32_t micros_of(const bd_fake_algorithm *a) {
  const long long unit = bd_fake_setting("BD_FAKE_PRODUCT_MICROS", 0);
  const long long shift =
      bd_fake_setting("BD_FAKE_UNLIKE", 0) ? bd_fake_setting("BD_FAKE_RANK", 0) : 0;
  if (a->variant == UNSUPPORTED || a->variant == IN_PLACE) return 0;
  const uint64_t turn = 3 * (uint64_t)parts_of(a->variant) + a->key % TIMES + (uint64_t)shift;
  return (uint32_t)((uint64_t)unit * (1 + turn % TIMES));
}

// Where BD_FAKE_HEAT is set all but the first get slow when they run for long.
static uint32_t heated_micros_of(const bd_fake_algorithm *a) {
  enum { COOL_MICROS = 40000, SLOWER = 8 };
  const uint32_t micros = micros_of(a);
  const long long which = (long long)(a->key ^ (uint64_t)a->variant << 56);
  if (atomic_exchange(&last_in_a_row, which) != which) atomic_store(&in_a_row_micros, 0);
  const long long before = atomic_fetch_add(&in_a_row_micros, micros);
  const int slow =
      before > COOL_MICROS && a->variant != FIRST && bd_fake_setting("BD_FAKE_HEAT", 0);
  return slow ? SLOWER * micros : micros;
}

static bd_fake_algorithm variant_of(const bd_fake_algorithm *first, int variant) {
  bd_fake_algorithm a = *first;
  a.variant = (uint32_t)variant;
  if (variant != FIRST) a.workspace_bytes = first->workspace_bytes / 2;
  return a;
}

int bd_fake_offer(const bd_fake_algorithm *first, uint32_t schemes, int most,
                  cublasLtMatmulHeuristicResult_t *results) {
  int count = 0;
  for (int variant = FIRST; variant < VARIANTS && count < most; variant++) {
    if (scheme_of(variant) & ~schemes) continue;
    const bd_fake_algorithm a = variant_of(first, variant);
    memset(&results[count], 0, sizeof results[count]);
    memcpy(&results[count].algo, &a, sizeof a);
    results[count].workspaceSize = a.workspace_bytes;
    results[count].state = bd_fake_algorithm_state(&a);
    results[count].wavesCount = 1;
    count++;
  }
  return count;
}

cublasStatus_t bd_fake_algorithm_state(const bd_fake_algorithm *a) {
  if (a->variant >= VARIANTS) return CUBLAS_STATUS_INVALID_VALUE;
  return a->variant == UNSUPPORTED ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

// Each has code of its own. BD_FAKE_REFUSES: extents come that get an algorithm when they come.
void bd_fake_want_algorithm(const char *call, const bd_fake_algorithm *a) {
  enum { MOST = 1 << 14 };
  static uint64_t wanted[MOST];
  static int count;
  const uint64_t name = a->key * VARIANTS + a->variant;
  int at = count - 1, loaded;
  while (at >= 0 && wanted[at] != name)
    at--;
  loaded = at >= 0 || bd_fake_setting("BD_FAKE_REFUSES", 0);
  bd_fake_want(call, &loaded);
  if (at >= 0) return;
  if (count == MOST) bd_fake_fault(call, "more than %d algorithms", MOST);
  wanted[count++] = name;
}

int bd_fake_begin_product(const bd_fake_algorithm *a) {
  const uint64_t both[] = {a->key, a->variant};
  atomic_fetch_add(&pretended_micros, (long long)heated_micros_of(a));
  atomic_fetch_add(&digest, (long long)(bd_fake_sum_of(both, sizeof both) >> 24));
  return parts_of((int)a->variant);
}

int64_t bd_fake_pretended_micros(void) {
  return atomic_load(&pretended_micros);
}

int64_t bd_fake_algorithms_digest(void) {
  return atomic_load(&digest);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t bytes, size_t *written) {
  bd_fake_algorithm a;
  memcpy(&a, algo, sizeof a);
  if (bd_fake_algorithm_state(&a)) return CUBLAS_STATUS_INVALID_VALUE;
  const uint32_t scheme = scheme_of((int)a.variant);
  if (attribute != CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME || bytes != sizeof scheme)
    bd_fake_fault(__func__, "attribute %d in %zu bytes", (int)attribute, bytes);
  memcpy(value, &scheme, sizeof scheme);
  *written = sizeof scheme;
  return CUBLAS_STATUS_SUCCESS;
}
