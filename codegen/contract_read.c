#include "codegen/contract.h"
#include "ir/pitch.h"
#include <assert.h>
#include <string.h>

static int find_letter(bd_contract_letter *letters, int *count, char letter) {
  for (int i = 0; i < *count; ++i)
    if (letters[i].letter == letter) return i;
  letters[*count] = (bd_contract_letter){.letter = letter};
  return (*count)++;
}

static bool numbers_products(const bd_contract_letter *letter) {
  return letter->in[0] && letter->in[1] && letter->in[2] && letter->padded > 1;
}

// In 8 bits each product is of the matrices that bd_float8_fits counts, so that its price, its
// scales and what the interpreter rounds are the same: what stands outside the letters that number
// them is no part of one.
static void keep_matrices(bd_contract_letter *letters, int count) {
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < count; ++j)
      for (int factor = 0; factor < 2; ++factor)
        if (numbers_products(&letters[j]) && letters[i].in[factor] &&
            letters[i].stride[factor] > letters[j].stride[factor])
          letters[i].looped = true;
}

void bd_contract_read(const bd_module *module, const bd_function *function, const bd_op *op,
                      bd_contract *out_contract) {
  bd_contract_letter letters[BD_CONTRACT_LETTERS];
  const char *at = bd_op_string(op, "rule");
  int count = 0;
  memset(letters, 0, sizeof letters);
  for (int tensor = 0; tensor < 3; ++tensor) {
    bd_id id = tensor < 2 ? op->in[tensor] : op->out[0];
    const bd_value *value = &function->values[id];
    bd_type local = bd_value_local_type(module, value);
    int64_t strides[BD_MAX_RANK];
    bd_value_strides(module, function, id, strides);
    for (int d = 0; d < local.rank; ++d, ++at) {
      assert(*at >= 'a' && *at <= 'z');
      bd_contract_letter *letter = &letters[find_letter(letters, &count, *at)];
      int64_t extent = bd_extent(value->type.dims[d], module->micro_batch);
      letter->padded = local.dims[d];
      letter->full =
          local.dims[d] * bd_sharding_parts(&module->mesh, &value->sharding, d) == extent;
      letter->in[tensor] = true;
      letter->stride[tensor] = strides[d];
      letter->tensor = tensor;
      letter->dim = d;
    }
    at += tensor == 0 ? 1 : tensor == 1 ? 2 : 0; // "," and "->"
  }
  if (bd_op_find_attr(op, "fp8")) keep_matrices(letters, count);
  bd_contract_plan(count, letters, out_contract);
}

bool bd_contract_has_rows(const bd_module *module, const bd_function *function, const bd_op *op,
                          int dims) {
  bd_contract c;
  bd_contract_read(module, function, op, &c);
  const bd_contract_group *rows = &c.group[BD_CONTRACT_M];
  const char *result = strchr(bd_op_string(op, "rule"), '>') + 1;
  int found = 0;
  if (c.outer_count > 0 || c.group[BD_CONTRACT_BATCH].count > 0) return false;
  for (int d = 0; d < dims; ++d) {
    int letter = find_letter(c.letter, &c.letter_count, result[d]);
    if (bd_contract_is_trivial(&c.letter[letter])) continue;
    if (found == rows->count || rows->letter[found] != letter) return false;
    found++;
  }
  return found > 0 && found == rows->count;
}
