// Executes a sequence of steps on a chain and counts slots: the judge of bd_chain_solve.
#include "planner/remat/chain.h"

typedef struct machine {
  const bd_chain *chain;
  bool *held;      // value i lies in memory of its own
  bool *taped;     // layer i has its tape
  bool *in_tape;   // value i lies in the tape of layer i - 1
  int gradient_of; // the value whose gradient is there
  int64_t live, peak;
  double cost;
} machine;

static bool readable(const machine *m, int value) {
  return value == 0 || m->held[value] || m->in_tape[value];
}

static void take(machine *m, int64_t slots) {
  m->live += slots;
  if (m->live > m->peak) m->peak = m->live;
}

static bool forward(machine *m, int layer) {
  if (!readable(m, layer) || m->held[layer + 1]) return false;
  m->held[layer + 1] = true;
  m->cost += m->chain->forward[layer];
  take(m, m->chain->value[layer + 1]);
  return true;
}

// Where the output's gradient is there already, the output's place in the tape is the gradient's.
static bool save(machine *m, int layer) {
  if (!readable(m, layer) || m->taped[layer]) return false;
  m->taped[layer] = true;
  m->in_tape[layer + 1] = m->gradient_of != layer + 1;
  m->cost += m->chain->forward[layer];
  take(m, m->chain->tape[layer] - (m->in_tape[layer + 1] ? 0 : m->chain->value[layer + 1]));
  return true;
}

static bool backward(machine *m, int layer) {
  if (!readable(m, layer) || !m->taped[layer] || m->gradient_of != layer + 1) return false;
  m->taped[layer] = false;
  m->cost += m->chain->backward[layer];
  take(m, m->chain->value[layer]);
  m->live -= m->chain->tape[layer];
  if (m->in_tape[layer]) m->live -= m->chain->value[layer];
  m->in_tape[layer] = false;
  m->gradient_of = layer;
  return true;
}

// Like backward: the gradient takes the place of a value that lies in a tape.
static bool loss(machine *m, int layer) {
  if (layer != m->chain->layers - 1 || !readable(m, layer) || m->gradient_of != layer + 1)
    return false;
  take(m, m->chain->value[layer]);
  if (m->in_tape[layer]) m->live -= m->chain->value[layer];
  m->in_tape[layer] = false;
  m->gradient_of = layer;
  return true;
}

static bool drop(machine *m, int value) {
  if (!m->held[value]) return false;
  m->held[value] = false;
  m->live -= m->chain->value[value];
  return true;
}

static bool step(machine *m, const bd_remat_step *s) {
  if (s->at < 0 || s->at >= m->chain->layers) return false;
  switch ((bd_chain_step)s->what) {
  case BD_CHAIN_FORWARD:
    return forward(m, s->at);
  case BD_CHAIN_SAVE:
    return save(m, s->at);
  case BD_CHAIN_BACKWARD:
    return backward(m, s->at);
  case BD_CHAIN_DROP:
    return drop(m, s->at);
  case BD_CHAIN_LOSS:
    return loss(m, s->at);
  }
  return false;
}

bd_status bd_chain_replay(bd_ctx *ctx, const bd_chain *chain, const bd_remat_steps *steps,
                          double *out_cost, int64_t *out_peak) {
  machine m = {.chain = chain, .gradient_of = chain->layers};
  m.held = BD_NEW_ARRAY(ctx->arena, bool, chain->layers + 1);
  m.taped = BD_NEW_ARRAY(ctx->arena, bool, chain->layers + 1);
  m.in_tape = BD_NEW_ARRAY(ctx->arena, bool, chain->layers + 1);
  for (int i = 0; i < steps->count; i++)
    if (!step(&m, &steps->step[i]))
      return bd_fail(ctx, BD_INTERNAL, BD_NOWHERE, "step %d of the chain's sequence lacks an input",
                     i);
  if (m.gradient_of != 0 || m.live != chain->value[0])
    return bd_fail(ctx, BD_INTERNAL, BD_NOWHERE, "the chain's sequence does not end clean");
  *out_cost = m.cost;
  *out_peak = m.peak;
  return BD_OK;
}
