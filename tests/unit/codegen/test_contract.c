// Contractions lowered to matrix products give what a naive evaluation gives.
#include "codegen/contract.h"
#include "ir/float8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 8, BUFFER = 1 << 16 };

// A contraction: its rule, and per letter (in order of first appearance) the padded and valid
// extents.
typedef struct sample {
  const char *rule;
  int64_t padded[MOST], valid[MOST];
} sample;

typedef struct problem {
  int count;
  bd_contract_letter letter[MOST];
  int64_t valid[MOST];
} problem;

static int find(problem *p, char letter) {
  for (int i = 0; i < p->count; ++i)
    if (p->letter[i].letter == letter) return i;
  p->letter[p->count].letter = letter;
  return p->count++;
}

static problem read_sample(const sample *s) {
  problem p = {0};
  int tensor = 0, start = 0;
  for (int at = 0; s->rule[at]; ++at)
    if (s->rule[at] >= 'a') {
      int i = find(&p, s->rule[at]);
      p.letter[i].padded = s->padded[i];
      p.letter[i].full = s->padded[i] == s->valid[i];
      p.valid[i] = s->valid[i];
    }
  for (int at = 0; tensor < 3; ++at) {
    char c = s->rule[at];
    if (c >= 'a') continue;
    int64_t stride = 1;
    for (int k = at - 1; k >= start; --k) {
      int i = find(&p, s->rule[k]);
      p.letter[i].in[tensor] = true;
      p.letter[i].stride[tensor] = stride;
      stride *= p.letter[i].padded;
    }
    tensor++;
    if (c == '-') at++;
    start = at + 1;
  }
  return p;
}

static int64_t offset(const problem *p, const int64_t *index, int tensor) {
  int64_t at = 0;
  for (int i = 0; i < p->count; ++i)
    if (p->letter[i].in[tensor]) at += index[i] * p->letter[i].stride[tensor];
  return at;
}

static void naive(const problem *p, int depth, int64_t *index, const double *a, const double *b,
                  double *out) {
  if (depth == p->count) {
    out[offset(p, index, 2)] += a[offset(p, index, 0)] * b[offset(p, index, 1)];
    return;
  }
  for (index[depth] = 0; index[depth] < p->valid[depth]; ++index[depth])
    naive(p, depth + 1, index, a, b, out);
}

static int64_t valid_extent(const problem *p, const bd_contract *c, int kind) {
  int64_t extent = 1;
  for (int i = 0; i < c->group[kind].count; ++i)
    extent *= p->valid[c->group[kind].letter[i]];
  return extent;
}

// One batched product as the runtime defines it; rows and columns as a library would demand them.
static void product(const problem *p, const bd_contract *c, const double *a, const double *b,
                    double *out) {
  bd_contract_strides s = bd_contract_get_strides(c);
  int64_t batch = valid_extent(p, c, BD_CONTRACT_BATCH), m = valid_extent(p, c, BD_CONTRACT_M),
          n = valid_extent(p, c, BD_CONTRACT_N), k = valid_extent(p, c, BD_CONTRACT_K);
  assert_true(s.a_m == 1 ? s.a_k >= m || s.a_k >= 1 : s.a_k == 1);
  assert_true(s.b_k == 1 || s.b_n == 1);
  for (int64_t z = 0; z < batch; ++z)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t l = 0; l < k; ++l)
          out[z * s.out_batch + i * s.out_m + j] +=
              a[z * s.a_batch + i * s.a_m + l * s.a_k] * b[z * s.b_batch + l * s.b_k + j * s.b_n];
}

static void lowered(const problem *p, const bd_contract *c, int depth, int64_t *index,
                    const double *a, const double *b, double *out) {
  if (depth == c->outer_count) {
    const double *first = a + offset(p, index, 0), *second = b + offset(p, index, 1);
    product(p, c, c->swapped ? second : first, c->swapped ? first : second,
            out + offset(p, index, 2));
    return;
  }
  int64_t *at = &index[c->outer[depth]];
  for (*at = 0; *at < p->valid[c->outer[depth]]; ++*at)
    lowered(p, c, depth + 1, index, a, b, out);
  *at = 0;
}

// `looped` is a mask of letters.
static void check_looped(const sample *s, unsigned looped, int most_outer) {
  problem p = read_sample(s);
  bd_contract c;
  for (int i = 0; i < p.count; ++i)
    p.letter[i].looped = looped >> i & 1;
  bd_contract_plan(p.count, p.letter, &c);
  for (int kind = BD_CONTRACT_M; kind < BD_CONTRACT_GROUPS; ++kind)
    for (int i = 0; i < c.group[kind].count; ++i)
      assert_false(c.letter[c.group[kind].letter[i]].looped);
  if (c.outer_count > most_outer) fail_msg("%s: %d outer loops", s->rule, c.outer_count);
  double *data = calloc(4 * BUFFER, sizeof *data);
  assert_non_null(data);
  double *a = data, *b = a + BUFFER, *want = b + BUFFER, *got = want + BUFFER;
  for (int i = 0; i < BUFFER; ++i) {
    a[i] = i % 17 - 8;
    b[i] = i % 13 - 6;
  }
  int64_t index[MOST] = {0}, outer[MOST] = {0};
  naive(&p, 0, index, a, b, want);
  lowered(&p, &c, 0, outer, a, b, got);
  if (memcmp(want, got, BUFFER * sizeof *got) != 0) fail_msg("%s: wrong sums", s->rule);
  free(data);
}

static void check(const sample *s, int most_outer) {
  check_looped(s, 0, most_outer);
}

static void test_products_of_layers(void **state) {
  (void)state;
  // The rules of transformers, forward and backward: one call each.
  static const sample samples[] = {
      {"btc,cn->btn", {2, 3, 4, 5}, {2, 3, 4, 5}},
      {"btn,cn->btc", {2, 3, 5, 4}, {2, 3, 5, 4}},
      {"btc,btn->cn", {2, 3, 4, 5}, {2, 3, 4, 5}},
      {"btc,chd->bthd", {2, 3, 4, 5, 2}, {2, 3, 4, 5, 2}},
      {"bthd,hdc->btc", {2, 3, 4, 5, 6}, {2, 3, 4, 5, 6}},
      {"bthd,chd->btc", {2, 3, 4, 5, 6}, {2, 3, 4, 5, 6}},
      {"bthd,btc->hdc", {2, 3, 4, 5, 6}, {2, 3, 4, 5, 6}},
      {"btc,vc->btv", {2, 3, 4, 7}, {2, 3, 4, 7}},
      {"btc,btv->vc", {2, 3, 4, 7}, {2, 3, 4, 7}},
      {"bc,cn->bn", {1, 4, 5}, {1, 4, 5}},
      {"zmk,zkn->zmn", {3, 4, 5, 6}, {3, 4, 5, 6}},
      {"zmk,znk->zmn", {3, 4, 5, 6}, {3, 4, 5, 6}},
      {"zkm,zkn->zmn", {3, 5, 4, 6}, {3, 5, 4, 6}},
      {"a,b->ab", {4, 5}, {4, 5}},
      {"a,a->", {9}, {9}},
      {"xyzk,kn->xyzn", {2, 3, 4, 5, 6}, {2, 3, 4, 5, 6}},
  };
  for (size_t i = 0; i < sizeof samples / sizeof samples[0]; ++i)
    check(&samples[i], 0);
}

static void test_padding(void **state) {
  (void)state;
  static const sample samples[] = {
      {"btc,cn->btn", {2, 3, 4, 5}, {2, 3, 4, 3}},
      {"btc,cn->btn", {2, 3, 4, 5}, {2, 2, 4, 5}},
      {"btc,cn->btn", {2, 3, 4, 5}, {2, 3, 3, 5}},
      {"btc,chd->bthd", {2, 3, 4, 5, 2}, {2, 3, 4, 4, 2}},
      {"btc,chd->bthd", {2, 3, 4, 5, 2}, {2, 3, 4, 5, 1}},
      {"bthd,hdc->btc", {2, 3, 4, 5, 6}, {2, 3, 1, 5, 6}},
      {"bthd,hdc->btc", {2, 3, 4, 5, 6}, {2, 3, 4, 3, 6}},
      {"btc,btn->cn", {2, 3, 4, 5}, {2, 1, 3, 5}},
      {"bthd,btc->hdc", {2, 3, 4, 5, 6}, {2, 3, 0, 5, 6}},
      {"btc,vc->btv", {2, 3, 4, 1}, {2, 3, 4, 0}},
      {"zmk,zkn->zmn", {3, 4, 5, 6}, {2, 3, 4, 5}},
  };
  for (size_t i = 0; i < sizeof samples / sizeof samples[0]; ++i)
    check(&samples[i], 2);
}

static void test_permutations(void **state) {
  (void)state;
  static const sample samples[] = {
      {"abk,kcd->cadb", {2, 3, 4, 5, 2}, {2, 3, 4, 5, 2}},
      {"kab,ckb->cba", {4, 2, 3, 5}, {4, 2, 3, 5}},
      {"mkz,nkz->mnz", {3, 4, 2, 5}, {3, 4, 2, 5}},
      {"pkqr,qpn->nkr", {2, 3, 4, 5, 6}, {2, 3, 4, 5, 6}},
      {"abcd,dcba->", {2, 3, 4, 5}, {2, 3, 4, 5}},
      {"abc,abc->abc", {2, 3, 4}, {2, 3, 4}},
      {"km,kn->nm", {4, 3, 5}, {4, 3, 5}},
  };
  for (size_t i = 0; i < sizeof samples / sizeof samples[0]; ++i)
    check(&samples[i], MOST);
}

// Random rules: every letter in at least two of the three tensors, in any order.
static void test_random_rules(void **state) {
  (void)state;
  unsigned seed = 1;
  for (int round = 0; round < 2000; ++round) {
    char rule[64], part[3][MOST + 1] = {"", "", ""};
    sample s = {.rule = rule};
    int letters = 1 + rand_r(&seed) % 5;
    for (int i = 0; i < letters; ++i) {
      int missing = rand_r(&seed) % 4;
      for (int t = 0; t < 3; ++t) {
        size_t length = strlen(part[t]), at = (size_t)rand_r(&seed) % (length + 1);
        if (t == missing) continue;
        memmove(part[t] + at + 1, part[t] + at, length - at + 1);
        part[t][at] = (char)('a' + i);
      }
    }
    (void)snprintf(rule, sizeof rule, "%s,%s->%s", part[0], part[1], part[2]);
    for (int i = 0; i < letters; ++i) {
      s.padded[i] = 1 + rand_r(&seed) % 4;
      s.valid[i] = rand_r(&seed) % 3 ? s.padded[i] : rand_r(&seed) % (s.padded[i] + 1);
    }
    check(&s, MOST);
    check_looped(&s, (unsigned)rand_r(&seed), MOST);
  }
}

// Of a contraction of bf16 of experts, marked for 8 bits or not.
static bd_contract read_experts(const char *rule, bd_type a, bd_type b, bool marked) {
  bd_ctx *ctx = bd_ctx_create();
  bd_module module = {.stage = BD_STAGE_SPMD, .micro_batch = 1};
  bd_function *f = bd_function_create(ctx, "f");
  bd_id out, in[] = {bd_function_add_param(ctx, f, "a", a), bd_function_add_param(ctx, f, "b", b)};
  bd_attr attrs[] = {bd_attr_string(ctx, "rule", rule), bd_attr_string(ctx, "fp8", "e4m3,e4m3")};
  bd_contract c;
  assert_int_equal(bd_build(ctx, f, BD_OP_CONTRACT, 2, in, 1 + marked, attrs, BD_NOWHERE, &out),
                   BD_OK);
  bd_contract_read(&module, f, &f->ops[0], &c);
  bd_ctx_destroy(ctx);
  return c;
}

static bool is_group(const bd_contract *c, bd_contract_group_kind kind, const char *letters) {
  const bd_contract_group *group = &c->group[kind];
  if (group->count != (int)strlen(letters)) return false;
  for (int i = 0; i < group->count; ++i)
    if (c->letter[group->letter[i]].letter != letters[i]) return false;
  return true;
}

// However many samples there are, products in 8 bits are of the matrices that bd_float8_fits
// counts; others are as large as can be.
static void test_samples_of_experts(void **state) {
  (void)state;
  enum { PLACES = 32, IN = 64, OUT = 16 };
  static const int64_t samples[] = {1, 8, 31, PLACES, 40, 48, 512};
  for (size_t i = 0; i < sizeof samples / sizeof *samples; ++i)
    for (int experts = 1; experts <= 4; experts *= 4) {
      const int64_t b = samples[i];
      bd_type x = {BD_BF16, 4, {b, experts, PLACES, IN}}, y = {BD_BF16, 4, {b, experts, PLACES, OUT}};
      bd_type w = {BD_BF16, 3, {experts, IN, OUT}};
      const char *rows = experts == 1 && b > 1 ? "bp" : "p", *batch = experts > 1 ? "e" : "";
      const struct {
        const char *rule;
        bd_type a, b;
        bd_contract_group_kind places; // a product runs over as
      } cases[] = {{"bepc,ecf->bepf", x, w, BD_CONTRACT_M},
                   {"ecf,bepc->bepf", w, x, BD_CONTRACT_M},
                   {"bepf,ecf->bepc", y, w, BD_CONTRACT_M},
                   {"bepc,bepf->ecf", x, y, BD_CONTRACT_K}};
      for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
        assert_true(bd_float8_fits(cases[k].rule, &cases[k].a, &cases[k].b));
        bd_contract c = read_experts(cases[k].rule, cases[k].a, cases[k].b, true);
        assert_true(is_group(&c, cases[k].places, rows));
        assert_true(is_group(&c, BD_CONTRACT_BATCH, batch));
        assert_int_equal(c.outer_count, experts > 1 && b > 1);
        c = read_experts(cases[k].rule, cases[k].a, cases[k].b, false);
        assert_true(is_group(&c, cases[k].places, experts > 1 && b >= PLACES ? "b" : rows));
      }
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products_of_layers),
      cmocka_unit_test(test_padding),
      cmocka_unit_test(test_permutations),
      cmocka_unit_test(test_random_rules),
      cmocka_unit_test(test_samples_of_experts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
