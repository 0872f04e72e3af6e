// What GPU kernels move lies in rows, so they move it 16 bytes at a time wherever shapes let them:
// read off the PTX.
#include "tests/unit/codegen/support_kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WIDEST = 16, MOST_KERNELS = 128, MOST_LETTERS = 64 };

typedef struct packs_case {
  kernel_case from;
  bd_dtype real;
  // Of each kernel: bytes of its loads from global memory, the widest first, and of its stores.
  const char *bytes;
} packs_case;

// Numbers of rows, indices and words of random numbers are 4 or 8 bytes.
static const packs_case cases[] = {
    {{BD_OP_ADD, "64,768 768", "", ""}, BD_BF16, "16>16"},
    {{BD_OP_ADD, "64,768 768", "", ""}, BD_F32, "16>16"},
    {{BD_OP_GELU, "64,768", "", ""}, BD_BF16, "16>16"},
    {{BD_OP_DROPOUT, "4,64,768", "p=0.1 site=3", ""}, BD_BF16, "16,8>16"},
    {{BD_OP_CAST, "64,768", "dtype=f32", ""}, BD_BF16, "16>16"},
    {{BD_OP_BROADCAST, "64", "rule=C->ABC dims=3,5,64", ""}, BD_BF16, "16>16"},
    {{BD_OP_BROADCAST, "3,5", "rule=AB->ABC dims=3,5,64", ""}, BD_BF16, "2>16"},
    {{BD_OP_PERMUTE, "2,9,12,64", "rule=abcd->acbd", ""}, BD_BF16, "16>16"},
    {{BD_OP_RESHAPE, "2,9,12,64", "dims=2,9,768", ""}, BD_F32, "16>16"},
    {{BD_OP_SLICE, "4,197,768", "dim=1 start=1 size=196", ""}, BD_BF16, "16>16"},
    {{BD_OP_SLICE, "2,9,12,72", "dim=3 start=0 size=64", ""}, BD_BF16, "16>16"},
    {{BD_OP_PAD, "4,196,768", "dim=1 start=1 size=197", ""}, BD_BF16, "16>16"},
    {{BD_OP_PAD, "2,9,12,64", "dim=3 start=0 size=72 value=1.0", ""}, BD_BF16, "16>16"},
    {{BD_OP_PAD, "2,9,12,64", "dim=3 start=4 size=72", ""}, BD_F32, "16>16"},
    {{BD_OP_PAD, "4,98,768", "dim=1 start=0 size=196 step=2", ""}, BD_BF16, "16>16"},
    {{BD_OP_CONCAT, "4,1,768 4,196,768", "dim=1", ""}, BD_BF16, "16>16"},
    {{BD_OP_CONCAT, "2,9,12,64 2,9,12,8", "dim=3", ""}, BD_BF16, "16>16"},
    {{BD_OP_CONCAT, "2,9,12,64 2,9,12,8", "dim=3", ""}, BD_F32, "16>16"},
    {{BD_OP_GATHER, "50,64 i9", "dim=0", ""}, BD_BF16, "16,4>16"},
    {{BD_OP_ROUTE, "2,50,64 i2,9,2 i2,50,1", "rows=1", ""}, BD_BF16, "16,4>16"},
    {{BD_OP_ROUTE, "2,5,10,64 i2,9,1 i2,5,10,1", "rows=2", ""}, BD_F32, "16,4>16"},
    {{BD_OP_EMBED, "500,768 i2,9", "", ""}, BD_BF16, "16,4>16"},
    {{BD_OP_ROPE, "2,9,4,128", "theta=10000.0", ""}, BD_BF16, "16>16"},
    {{BD_OP_ROPE, "2,9,4,64", "theta=10000.0 turned=16", ""}, BD_BF16, "16>16"},
    {{BD_OP_REDUCE_SUM, "64,768", "rule=AB->A", ""}, BD_BF16, "16>2"},
    {{BD_OP_REDUCE_SUM, "64,768", "rule=AB->A", ""}, BD_F32, "16>4"},
    {{BD_OP_REDUCE_SUM, "64,768", "rule=AB->B", ""}, BD_BF16, "16>16"},
    {{BD_OP_REDUCE_SUM, "64,768", "rule=AB->B", ""}, BD_F32, "16>16"},
    {{BD_OP_REDUCE_SUM, "4096,768", "rule=AB->B", ""}, BD_BF16, "16>16 16>16"},
    {{BD_OP_REDUCE_SUM, "64,1152", "rule=AB->B", "B"}, BD_BF16, "16>16"},
    {{BD_OP_REDUCE_SUM, "4096,1152", "rule=AB->B", "B"}, BD_F32, "16>16 16>16"},
    {{BD_OP_LAYERNORM_DW, "64,768 64,768 64 p64", "", ""}, BD_BF16, "16,4>16"},
    {{BD_OP_LAYERNORM_DW, "64,768 64,768 64 p64", "", ""}, BD_F32, "16,4>16"},
    {{BD_OP_LAYERNORM_DW, "64,1152 64,1152 64 p64", "", "c"}, BD_BF16, "16,4>16"},
    {{BD_OP_LAYERNORM, "64,768 768 768", "eps=1e-5", ""}, BD_BF16, "16>16,4"},
    {{BD_OP_LAYERNORM_DX, "64,768 64,768 768 64 p64", "", ""}, BD_BF16, "16,4>16"},
    {{BD_OP_LSE, "64,512", "", ""}, BD_BF16, "16>4"},
    {{BD_OP_XENT_GRAD, "64,512 i64 64 .", "", ""}, BD_BF16, "16,4>16"},
    {{BD_OP_ATTENTION, "2,130,2,64 2,130,2,64 2,130,2,64", "scale=0.05", ""}, BD_BF16, "16>16,4"},
    {{BD_OP_ATTENTION, "2,130,2,24 2,130,2,24 2,130,2,24", "scale=0.05", ""}, BD_F32, "16>16,4"},
    {{BD_OP_ATTENTION_GRAD, "2,130,2,64 2,130,2,64 2,130,2,64 2,130,2,64 2,130,2,64 2,130,2",
      "scale=0.05", ""},
     BD_BF16,
     "16>4 16,4>16 16,4>16"},
    {{BD_OP_ATTENTION_GRAD, "2,130,2,24 2,130,2,24 2,130,2,24 2,130,2,24 2,130,2,24 2,130,2",
      "scale=0.05", ""},
     BD_F32,
     "16>4 16,4>16 16,4>16"},
    // Shapes that no pack, or a short one, fits.
    {{BD_OP_ADD, "64,333 333", "", ""}, BD_BF16, "2>2"},
    {{BD_OP_REDUCE_SUM, "64,1148", "rule=AB->B", "B"}, BD_BF16, "2>2"}, // parts of 383
    {{BD_OP_REDUCE_SUM, "64,1150", "rule=AB->B", "B"}, BD_BF16, "4>4"}, // of 384, and 382
    {{BD_OP_REDUCE_SUM, "64,1151", "rule=AB->B", "B"}, BD_BF16, "2>2"}, // of 384, and 383
    {{BD_OP_PAD, "2,9,12,64", "dim=3 start=4 size=72", ""}, BD_BF16, "8>8"},
    {{BD_OP_PERMUTE, "2,64,96", "rule=abc->acb", ""}, BD_BF16, "2>2"},
};

enum { CASES = sizeof cases / sizeof *cases };

// Which widths the loads and stores of a kernel have, a bit for each power of two.
typedef struct moved {
  unsigned loads, stores;
} moved;

static unsigned width_of(const char *opcode) {
  const char *end = opcode + strcspn(opcode, " \t"), *number = end;
  while (number[-1] >= '0' && number[-1] <= '9')
    number--;
  const char *vector = strstr(opcode, ".v");
  int lanes = vector && vector < end ? atoi(vector + 2) : 1;
  return (unsigned)(lanes * atoi(number) / 8);
}

static void read_widths(const char *path, moved *kernels) {
  char line[512];
  moved *of = NULL;
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    const char *entry = strstr(line, ".entry bdk_"), *load = strstr(line, "ld.global"),
               *store = strstr(line, "st.global");
    if (entry) of = &kernels[atoi(entry + strlen(".entry bdk_"))];
    if (load && of) of->loads |= width_of(load);
    if (store && of) of->stores |= width_of(store);
  }
  fclose(file);
}

static void list_widths(char *text, unsigned widths) {
  for (unsigned width = WIDEST, any = 0; width; width /= 2)
    if (widths & width) sprintf(text + strlen(text), "%s%u", any++ ? "," : "", width);
}

static void rows_move_in_packs(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  static kernel_run runs[CASES];
  static moved kernels[MOST_KERNELS];
  bd_kernel_set *set;
  int count = 0;
  assert_int_equal(bd_kernel_set_create(ctx, true, "sm_80", &set), BD_OK);
  for (int i = 0; i < CASES; i++) {
    kernel_run_make(ctx, &cases[i].from, cases[i].real, cases[i].from.letters[0], true, count,
                    &runs[i]);
    assert_int_equal(bd_kernel_set_add(ctx, set, &runs[i].kernel), BD_OK);
    count += runs[i].kernel.parts;
  }
  assert_true(count <= MOST_KERNELS);
  char folder[] = "/tmp/bd_packs_XXXXXX";
  assert_non_null(mkdtemp(folder));
  const char *stem = bd_intern_f(ctx, "%s/k", folder);
  assert_int_equal(bd_kernel_set_write(ctx, set, stem), BD_OK);
  read_widths(bd_intern_f(ctx, "%s.ptx", stem), kernels);
  for (int i = 0; i < CASES; i++) {
    const bd_kernel *k = &runs[i].kernel;
    char got[MOST_LETTERS] = "";
    for (int part = 0; part < k->parts; part++) {
      const moved *of = &kernels[k->number + part];
      if (part) strcat(got, " ");
      list_widths(got, of->loads);
      strcat(got, ">");
      list_widths(got, of->stores);
    }
    if (strcmp(got, cases[i].bytes))
      fail_msg("%s (%s; %s) of %s moves %s bytes at once, not %s",
               bd_op_get_info(cases[i].from.kind)->name, cases[i].from.shapes,
               cases[i].from.attributes, bd_dtype_name(cases[i].real), got, cases[i].bytes);
  }
  bd_kernel_set_destroy(set);
  kernel_remove_outputs(ctx, folder, stem);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_move_in_packs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
