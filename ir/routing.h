// How tokens reach their experts and come back (GShard, Lepikhin et al. 2020, sections 2.2 and
// 3.2; MegaBlocks, Gale et al. 2022). Of a sample all tokens' first choices come first, in order,
// then their second ones. Either they fill the places of each expert, [experts, capacity] for each
// sample, and who finds none passes the expert by; or no token is dropped: the choices of all
// samples that a rank holds lie in one row after another, sorted by expert, then by sample, each
// expert's from a multiple of a grain on, for products of rows in groups. Rows and tokens are then
// numbered over these samples (ir/pool.h). Rows move by `route`, so how experts and tokens are cut
// over ranks follows from its index rule.
#ifndef BD_IR_ROUTING_H
#define BD_IR_ROUTING_H
#include "ir/module.h"

typedef struct bd_routing {
  bd_ctx *ctx;
  // Makes an op in the function that is built, which may call it `name`; *out: its first result.
  bd_status (*emit)(void *user, const char *name, bd_op_kind kind, int in_count, const bd_id *in,
                    int attr_count, const bd_attr *attrs, bd_id *out);
  void *user;
  int64_t sequence, experts, choices; // tokens of a sample, experts, experts of a token
  int64_t capacity; // places of an expert for each sample, at most `sequence`; 0: none is dropped
} bd_routing;

// Where no token is dropped a place is a row: [rows] stands for [expert, place] in what follows,
// and rows and tokens have their numbers over all samples.
typedef struct bd_routed {
  bd_id mark;   // i32 [batch, choice, token, expert]: 1 where a token's choice is the expert
  bd_id to;     // i32 [batch, token, choice]: the place, expert * capacity + place; -1: none
  bd_id from;   // i32 [batch, expert, place, 1]: the token that sits there; -1: none
  bd_id weight; // f32 [batch, expert, place]: its weight for the expert; 0: none
  bd_id ends; // i32 [batch, expert]: the row behind each expert's, the same for every sample; with
              // places BD_NO_ID
  bd_id expert; // i32 [batch, row]: whose row it is, `experts` of those behind the last end; with
                // places BD_NO_ID
} bd_routed;

// What the first row of an expert is a multiple of, where no token is dropped: products on GPUs
// then have few sizes, and rows that are aligned. And how many rows a sample has: enough however
// its tokens choose, and of several samples as many times as much, since what is rounded up apart
// is no less. Behind an expert's tokens, and behind the last end, rows are 0.
int64_t bd_routing_grain(const bd_routing *routing);
int64_t bd_routing_rows(const bd_routing *routing);

// Of the experts that tokens have chosen, i64 [batch, token, choice], all of a token different, and
// the tokens' weights for them, f32 of the same shape. Errors: those of `emit`.
BD_NODISCARD bd_status bd_routing_emit(const bd_routing *routing, bd_id chosen, bd_id weights,
                                       bd_routed *out);

// Takes tokens, [batch, token, features..], to their places, [batch, expert, place, features..],
// and what experts made there, of type `made_type`, back: each token's weighted sum. Errors: those
// of `emit`.
BD_NODISCARD bd_status bd_routing_place(const bd_routing *routing, const bd_routed *routed,
                                        bd_id tokens, bd_id *out);
BD_NODISCARD bd_status bd_routing_return(const bd_routing *routing, const bd_routed *routed,
                                         const bd_type *made_type, bd_id made, bd_id *out);

// How many times the choices of a sample's tokens the experts of a function have places, where they
// have places for all tokens each; else, or without experts, 0.
double bd_routing_spare(const bd_function *function);

// How many layers of experts a function has: of the routes by which tokens come back.
int bd_routing_count(const bd_function *function);
#endif
