#include "tests/record/event.h"

static const char *const names[RECORD_KINDS] = {
    [RECORD_MARK] = "mark",
    [RECORD_LAUNCH] = "launch",
    [RECORD_MATMUL] = "matmul",
    [RECORD_EMBED_DW] = "embed_dw",
    [RECORD_CONV2D] = "conv2d",
    [RECORD_CONV2D_DX] = "conv2d_dx",
    [RECORD_CONV2D_DW] = "conv2d_dw",
    [RECORD_MAXPOOL2D] = "maxpool2d",
    [RECORD_MAXPOOL2D_GRAD] = "maxpool2d_grad",
    [RECORD_ZERO] = "zero",
    [RECORD_COPY] = "copy",
    [RECORD_TOKENS] = "tokens",
    [RECORD_TARGETS] = "targets",
    [RECORD_REALS] = "reals",
    [RECORD_LOSS_GRADIENT] = "loss_gradient",
    [RECORD_ADD_LOSS] = "add_loss",
    [RECORD_SHARD] = "shard",
    [RECORD_ADD] = "add",
    [RECORD_SQUARE_SUM] = "square_sum",
    [RECORD_APPLY] = "apply",
    [RECORD_NARROW] = "narrow",
    [RECORD_WINDOW] = "window",
    [RECORD_CLEAR_PADDING] = "clear_padding",
    [RECORD_ALL_REDUCE] = "all_reduce",
    [RECORD_ALL_GATHER] = "all_gather",
    [RECORD_REDUCE_SCATTER] = "reduce_scatter",
    [RECORD_ALL_TO_ALL] = "all_to_all",
    [RECORD_SUM_RANKS] = "sum_ranks",
    [RECORD_SEND] = "send",
    [RECORD_RECEIVE] = "receive",
    [RECORD_WAIT] = "wait",
};

const char *record_kind_name(record_kind kind) {
  return names[kind];
}

uint64_t record_digest_bytes(uint64_t digest, const void *data, int64_t bytes) {
  const unsigned char *const at = data;
  const uint64_t prime = (UINT64_C(1) << 40) + RECORD_DIGEST_PRIME;
  for (int64_t i = 0; i < bytes; i++)
    digest = (digest ^ at[i]) * prime;
  return digest;
}

static uint64_t digest_number(uint64_t digest, int64_t number) {
  return record_digest_bytes(digest, &number, sizeof number);
}

uint64_t record_digest(uint64_t digest, const record_event *event) {
  const record_terms *const t = &event->terms;
  const int64_t numbers[] = {
      event->kind,   event->instruction, event->number, event->mask, event->stage,
      event->handle, t->dtype,           t->combiner,   t->swapped,  t->tag};
  digest = record_digest_bytes(digest, numbers, sizeof numbers);
  digest = record_digest_bytes(digest, t->shape, sizeof t->shape);
  if (event->range_count)
    digest = record_digest_bytes(digest, event->ranges,
                                 event->range_count * (int64_t)sizeof *event->ranges);
  for (int i = 0; i < event->operand_count; i++) {
    const record_operand *const o = &event->operands[i];
    digest = digest_number(digest, o->access);
    digest = digest_number(digest, o->start);
    digest = digest_number(digest, o->bytes);
  }
  return digest;
}
