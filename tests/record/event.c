#include "tests/record/event.h"

#include <string.h>

static const char *const names[RECORD_KINDS] = {
    [RECORD_MARK] = "mark",
    [RECORD_LAUNCH] = "launch",
    [RECORD_MATMUL] = "matmul",
    [RECORD_EMBED_DW] = "embed_dw",
    [RECORD_CONV] = "conv",
    [RECORD_CONV_DX] = "conv_dx",
    [RECORD_CONV_DW] = "conv_dw",
    [RECORD_MAXPOOL] = "maxpool",
    [RECORD_MAXPOOL_GRAD] = "maxpool_grad",
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
    [RECORD_IDS] = "ids",
    [RECORD_ATTEND] = "attend",
    [RECORD_MIRROR] = "mirror",
    [RECORD_FETCH] = "fetch",
    [RECORD_GROUPED_ROWS] = "grouped_rows",
    [RECORD_GROUPED_WEIGHTS] = "grouped_weights",
};

const char *record_kind_name(record_kind kind) {
  return names[kind];
}

bool record_same_terms(const record_terms *a, const record_terms *b) {
  return a->kind == b->kind && a->dtype == b->dtype && a->combiner == b->combiner &&
         a->swapped == b->swapped && a->tag == b->tag && a->line == b->line &&
         memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}

static uint64_t digest_number(uint64_t digest, int64_t number) {
  digest = (digest ^ (uint64_t)number) * UINT64_C(0x9e3779b97f4a7c15);
  return digest ^ digest >> 29;
}

uint64_t record_digest_terms(uint64_t digest, const record_terms *t) {
  const int64_t numbers[] = {t->kind,     t->dtype,    t->combiner, t->swapped,  t->tag,
                             t->shape[0], t->shape[1], t->shape[2], t->shape[3], t->shape[4]};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    digest = digest_number(digest, numbers[i]);
  return t->line ? digest_number(digest, t->line) : digest;
}

uint64_t record_digest(uint64_t digest, const record_event *event) {
  const int64_t numbers[] = {event->kind, event->instruction, event->number,
                             event->mask, event->stage,       event->handle};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    digest = digest_number(digest, numbers[i]);
  digest = record_digest_terms(digest, &event->terms);
  for (int i = 0; i < event->range_count; i++)
    digest = digest_number(digest, event->ranges[i]);
  for (int i = 0; i < event->operand_count; i++) {
    const record_operand *const o = &event->operands[i];
    digest = digest_number(digest, o->access);
    digest = digest_number(digest, o->start);
    digest = digest_number(digest, o->bytes);
  }
  return digest;
}
