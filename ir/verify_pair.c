#include "ir/index_rule.h"
#include "ir/verify_internal.h"
#include <string.h>

static bd_status verify_peer(bd_verifier *v, const bd_function *function,
                             const bd_function **out_peer) {
  *out_peer = NULL;
  if (!function->peer) {
    if (function->role == BD_ROLE_BACKWARD)
      return bd_fail(v->ctx, BD_INVALID, function->loc, "@%s is backward of no function",
                     function->name);
    if (function->save_count > 0)
      return bd_fail(v->ctx, BD_INVALID, function->loc, "@%s saves values that nobody restores",
                     function->name);
    return BD_OK;
  }
  const bd_function *peer = bd_verifier_find(v, function->peer);
  if (v->module->stage == BD_STAGE_GRAPH)
    return bd_fail(v->ctx, BD_INVALID, function->loc, "a function of a graph module has no peer");
  if (!peer)
    return bd_fail(v->ctx, BD_INVALID, function->loc, "there is no function @%s", function->peer);
  if (!peer->peer || strcmp(peer->peer, function->name) != 0 || peer->role == function->role)
    return bd_fail(v->ctx, BD_INVALID, function->loc, "@%s and @%s are not each other's peer",
                   function->name, peer->name);
  *out_peer = peer;
  return BD_OK;
}

static const bd_type *type_of(const bd_function *function, bd_id id) {
  return &function->values[id].type;
}

static bd_status differs(bd_verifier *v, const bd_function *function, const char *what, int number,
                         const bd_type *found, const bd_type *wanted) {
  return bd_fail(v->ctx, BD_INVALID, function->loc, "@%s: %s %d is %s, its forward value is %s",
                 function->name, what, number, bd_type_describe(v->ctx, found),
                 bd_type_describe(v->ctx, wanted));
}

// The parameters of a backward function: the saved values, then the gradients of the results.
static bd_status verify_backward_params(bd_verifier *v, const bd_function *function,
                                        const bd_function *forward) {
  if (function->restore_count != forward->save_count)
    return bd_fail(v->ctx, BD_INVALID, function->loc, "@%s restores %d values, @%s saves %d",
                   function->name, function->restore_count, forward->name, forward->save_count);
  if (function->param_count != forward->save_count + forward->result_count)
    return bd_fail(v->ctx, BD_INVALID, function->loc,
                   "@%s takes %d parameters; %d saved values and %d gradients make %d",
                   function->name, function->param_count, forward->save_count,
                   forward->result_count, forward->save_count + forward->result_count);
  for (int i = 0; i < function->param_count; ++i) {
    int result = i - forward->save_count;
    bd_id id = result < 0 ? forward->saves[i] : forward->results[result];
    const bd_type *wanted = type_of(forward, id), *found = type_of(function, function->params[i]);
    if (!bd_type_equal(found, wanted)) return differs(v, function, "parameter", i, found, wanted);
  }
  return BD_OK;
}

static bd_status verify_backward_results(bd_verifier *v, const bd_function *function,
                                         const bd_function *forward) {
  bool *seen = BD_NEW_ARRAY(v->ctx->arena, bool, forward->param_count);
  for (int i = 0; i < function->result_count; ++i) {
    int param = function->gradient_of ? function->gradient_of[i] : -1;
    if (param < 0 || param >= forward->param_count || seen[param])
      return bd_fail(v->ctx, BD_INVALID, function->loc,
                     "@%s: result %d must be the one gradient of a parameter of @%s",
                     function->name, i, forward->name);
    seen[param] = true;
    bd_type wanted = *type_of(forward, forward->params[param]);
    const bd_type *found = type_of(function, function->results[i]);
    // main knows whether the weight has a master, whose type its gradients have.
    bool half = bd_dtype_is_float(wanted.dtype) && bd_dtype_bytes(wanted.dtype) == 2;
    if (forward->is_weight[param] && half && found->dtype == BD_F32) wanted.dtype = BD_F32;
    if (!bd_type_equal(found, &wanted)) return differs(v, function, "result", i, found, &wanted);
  }
  return BD_OK;
}

bd_status bd_verify_pair(bd_verifier *v, const bd_function *function) {
  const bd_function *peer;
  if (!bd_is_identifier(function->name))
    return bd_fail(v->ctx, BD_INVALID, function->loc,
                   "a function's name is made of letters, digits, _ and .");
  BD_TRY(verify_peer(v, function, &peer));
  if (function->role == BD_ROLE_FORWARD) {
    if (function->restore_count > 0)
      return bd_fail(v->ctx, BD_INVALID, function->loc, "@%s is not backward and restores values",
                     function->name);
    return BD_OK;
  }
  if (function->save_count > 0)
    return bd_fail(v->ctx, BD_INVALID, function->loc, "@%s is backward and saves values",
                   function->name);
  BD_TRY(verify_backward_params(v, function, peer));
  return verify_backward_results(v, function, peer);
}
