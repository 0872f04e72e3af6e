#include "frontend/onnx/infer/einsum.h"
#include <string.h>

typedef struct equation {
  const bd_onnx_step *step;
  const char *text, *at;
  bd_onnx_einsum *sum;
  int uses['z' + 1];
  int hidden; // dimensions that the ellipsis stands for
} equation;

static bd_status fail(const equation *e, const char *why) {
  return bd_onnx_step_fail(e->step, BD_INVALID, "its equation \"%s\" %s", e->text, why);
}

static bool is_letter(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

// The letters of one term, up to ',' or "->" or the end. An ellipsis takes `hidden` letters.
static bd_status read_term(equation *e, int hidden, int *out_rank, char letters[BD_MAX_RANK]) {
  int rank = 0;
  bool has_ellipsis = false;
  for (; *e->at && *e->at != ',' && *e->at != '-'; e->at++) {
    if (*e->at == ' ') continue;
    if (strncmp(e->at, "...", 3) == 0 && !has_ellipsis) {
      has_ellipsis = true;
      for (int i = hidden - 1; i >= 0; i--) {
        if (rank == BD_MAX_RANK) return fail(e, "has a term of more than 8 dimensions");
        letters[rank++] = (char)('0' + i);
      }
      e->at += 2;
      continue;
    }
    if (!is_letter(*e->at)) return fail(e, "cannot be read");
    if (rank == BD_MAX_RANK) return fail(e, "has a term of more than 8 dimensions");
    letters[rank++] = *e->at;
  }
  *out_rank = rank;
  return BD_OK;
}

// Letters of the term that begins here.
static int count_letters(const char *at) {
  int count = 0;
  for (; *at && *at != ',' && *at != '-'; at++)
    count += is_letter(*at);
  return count;
}

static bd_status take_extents(equation *e, int i) {
  bd_onnx_einsum *sum = e->sum;
  const bd_onnx_fact *in = e->step->in[i];
  if (!in || sum->rank[i] != in->rank) return fail(e, "has a term that does not fit its operand");
  for (int d = 0; d < in->rank; d++) {
    int letter = sum->in[i][d];
    bool fresh = e->uses[letter]++ == 0;
    if (fresh || bd_onnx_is(sum->extent[letter], 1))
      sum->extent[letter] = in->dims[d];
    else if (!bd_onnx_same(sum->extent[letter], in->dims[d]) && !bd_onnx_is(in->dims[d], 1))
      return fail(e, "gives one letter to dimensions of different extents");
  }
  return BD_OK;
}

static bd_status read_operands(equation *e) {
  const bd_onnx_step *step = e->step;
  if (step->in_count > BD_ONNX_EINSUM_OPERANDS) return fail(e, "has more than 16 operands");
  for (int i = 0; i < step->in_count; i++) {
    int hidden = step->in[i] ? step->in[i]->rank - count_letters(e->at) : 0;
    if (hidden < 0) return fail(e, "has a term that does not fit its operand");
    if (hidden > e->hidden) e->hidden = hidden;
    BD_TRY(read_term(e, hidden, &e->sum->rank[i], e->sum->in[i]));
    BD_TRY(take_extents(e, i));
    bool last = i == step->in_count - 1;
    if (last == (*e->at == ',')) return fail(e, "has another number of terms than operands");
    if (!last) e->at++;
  }
  e->sum->count = step->in_count;
  return BD_OK;
}

// The result where the equation does not say it.
static bd_status imply_result(equation *e) {
  bd_onnx_einsum *sum = e->sum;
  for (int i = e->hidden - 1; i >= 0; i--)
    sum->out[sum->out_rank++] = (char)('0' + i);
  for (int letter = 'A'; letter <= 'z'; letter++) {
    if (!is_letter((char)letter) || e->uses[letter] != 1) continue;
    if (sum->out_rank == BD_MAX_RANK) return fail(e, "has a result of more than 8 dimensions");
    sum->out[sum->out_rank++] = (char)letter;
  }
  return BD_OK;
}

bd_status bd_onnx_einsum_read(const bd_onnx_step *step, bd_onnx_einsum *out_sum) {
  const char *text = bd_onnx_text(step, "equation", "");
  equation e = {.step = step, .text = text, .at = text, .sum = out_sum};
  memset(out_sum, 0, sizeof *out_sum);
  BD_TRY(read_operands(&e));
  if (*e.at == '\0') return imply_result(&e);
  if (e.at[0] != '-' || e.at[1] != '>') return fail(&e, "cannot be read");
  e.at += 2;
  BD_TRY(read_term(&e, e.hidden, &out_sum->out_rank, out_sum->out));
  if (*e.at) return fail(&e, "goes on after its result");
  for (int d = 0; d < out_sum->out_rank; d++) {
    if (e.uses[(int)out_sum->out[d]] == 0) return fail(&e, "has a letter in its result alone");
    for (int k = 0; k < d; k++)
      if (out_sum->out[k] == out_sum->out[d]) return fail(&e, "has a letter twice in its result");
  }
  return BD_OK;
}
