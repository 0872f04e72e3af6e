#include "tests/device/fake/exchange.h"

#include "tests/device/fake/combine.h"
#include "tests/device/fake/device.h"

#include <string.h>

static const char *const kind_names[] = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter"};

static size_t bytes_of(const bd_fake_exchange *e, int64_t parts) {
  return bd_fake_dtype_bytes(e->call, e->dtype) * (size_t)(e->count * parts);
}

static size_t send_bytes(const bd_fake_exchange *e) {
  if (e->kind == BD_FAKE_RECV) return 0;
  return bytes_of(e, e->kind == BD_FAKE_REDUCE_SCATTER ? e->comm->wire.ranks : 1);
}

static size_t recv_bytes(const bd_fake_exchange *e) {
  if (e->kind == BD_FAKE_SEND) return 0;
  return bytes_of(e, e->kind == BD_FAKE_ALL_GATHER ? e->comm->wire.ranks : 1);
}

// NCCL works in place where the buffers start at the same element of the whole.
static int is_in_place(const bd_fake_exchange *e) {
  const size_t part = bytes_of(e, e->comm->wire.rank);
  if (e->kind == BD_FAKE_ALL_GATHER) return e->send == (char *)e->recv + part;
  if (e->kind == BD_FAKE_REDUCE_SCATTER) return (const char *)e->send + part == e->recv;
  return e->send == e->recv;
}

static void check_peer(const bd_fake_exchange *e) {
  const bd_fake_wire *const wire = &e->comm->wire;
  const int message = e->kind == BD_FAKE_SEND || e->kind == BD_FAKE_RECV;
  if (e->root < 0 || e->root >= wire->ranks || (message && e->root == wire->rank))
    bd_fake_fault(e->call, "rank %d of %d names rank %d", wire->rank, wire->ranks, e->root);
}

void bd_fake_exchange_check(bd_fake_exchange *e) {
  const size_t unit = bd_fake_dtype_bytes(e->call, e->dtype);
  check_peer(e);
  if (e->count < 0) bd_fake_fault(e->call, "%lld elements", (long long)e->count);
  if (send_bytes(e)) bd_fake_check(e->call, "the send buffer", e->send, send_bytes(e), unit);
  if (recv_bytes(e)) bd_fake_check(e->call, "the receive buffer", e->recv, recv_bytes(e), unit);
  if (!is_in_place(e) && bd_fake_overlap(e->send, send_bytes(e), e->recv, recv_bytes(e)))
    bd_fake_fault(e->call, "the buffers overlap");
  if (e->kind == BD_FAKE_SEND)
    e->turn = e->comm->sent[e->root]++;
  else if (e->kind == BD_FAKE_RECV)
    e->turn = e->comm->received[e->root]++;
  else
    e->turn = e->comm->collectives++;
}

// From here on until the end nobody else may touch the buffers: what is received is spoiled, and
// sums tell whether that or what is sent was changed.
static void begin(bd_fake_exchange *e) {
  if (!is_in_place(e)) memset(e->recv, 0xFF, recv_bytes(e));
  e->send_sum = bd_fake_sum_of(e->send, send_bytes(e));
  e->recv_sum = bd_fake_sum_of(e->recv, recv_bytes(e));
  e->state = 1;
}

static void check_untouched(const bd_fake_exchange *e) {
  if (bd_fake_sum_of(e->send, send_bytes(e)) != e->send_sum)
    bd_fake_fault(e->call, "other work wrote the send buffer meanwhile");
  if (bd_fake_sum_of(e->recv, recv_bytes(e)) != e->recv_sum)
    bd_fake_fault(e->call, "other work wrote the receive buffer meanwhile");
}

// Outside of the window: -1, as it must be on all ranks.
static int64_t place_of(const bd_fake_exchange *e, const void *at, size_t bytes) {
  const char *const window = e->comm->window, *const byte = at;
  const int inside = window && byte >= window && byte + bytes <= window + e->comm->window_bytes;
  return inside ? byte - window : -1;
}

int bd_fake_exchange_in_window(const bd_fake_exchange *e) {
  return place_of(e, e->send, send_bytes(e)) >= 0 && place_of(e, e->recv, recv_bytes(e)) >= 0;
}

// In place only the whole buffer has one place in the window on all ranks.
static bd_fake_call call_of(const bd_fake_exchange *e) {
  const int reduces = e->kind == BD_FAKE_ALL_REDUCE || e->kind == BD_FAKE_REDUCE_SCATTER;
  bd_fake_call call = {
      .kind = e->kind, .dtype = e->dtype, .op = reduces ? (int32_t)e->op : 0, .count = e->count};
  call.send_at = place_of(e, e->send, send_bytes(e));
  call.recv_at = place_of(e, e->recv, recv_bytes(e));
  if (is_in_place(e) && e->kind == BD_FAKE_ALL_GATHER) call.send_at = call.recv_at;
  if (is_in_place(e) && e->kind == BD_FAKE_REDUCE_SCATTER) call.recv_at = call.send_at;
  return call;
}

static void check_places(const bd_fake_exchange *e, int rank, bd_fake_call theirs) {
  const bd_fake_call ours = call_of(e);
  if (ours.send_at != theirs.send_at || ours.recv_at != theirs.recv_at)
    bd_fake_fault(
        e->call,
        "rank %d sends byte %lld of the window and receives at %lld, rank %d %lld and %lld",
        e->comm->wire.rank, (long long)ours.send_at, (long long)ours.recv_at, rank,
        (long long)theirs.send_at, (long long)theirs.recv_at);
}

static void check_same(const bd_fake_exchange *e, int rank, bd_fake_call theirs) {
  const bd_fake_call ours = call_of(e);
  if (ours.kind == theirs.kind && ours.dtype == theirs.dtype && ours.op == theirs.op &&
      ours.count == theirs.count)
    return;
  bd_fake_fault(
      e->call,
      "rank %d calls it with count %lld, type %d, operation %d; rank %d calls %s with count "
      "%lld, type %d, operation %d",
      e->comm->wire.rank, (long long)ours.count, ours.dtype, ours.op, rank, kind_names[theirs.kind],
      (long long)theirs.count, theirs.dtype, theirs.op);
}

static int all_taken(const bd_fake_exchange *e) {
  const bd_fake_wire *const wire = &e->comm->wire;
  for (int r = 0; r < wire->ranks; r++)
    if (wire->shared->member[r].turn.taken < e->turn) return 0;
  return 1;
}

static int all_posted(const bd_fake_exchange *e) {
  const bd_fake_wire *const wire = &e->comm->wire;
  for (int r = 0; r < wire->ranks; r++)
    if (wire->shared->member[r].turn.posted <= e->turn) return 0;
  return 1;
}

static void gather(const bd_fake_exchange *e) {
  const size_t part = bytes_of(e, 1);
  for (int r = 0; r < e->comm->wire.ranks; r++)
    bd_fake_wire_read(&e->comm->wire, r, -1, 0, (char *)e->recv + (size_t)r * part, part);
}

static void finish_collective(const bd_fake_exchange *e) {
  const bd_fake_wire *const wire = &e->comm->wire;
  for (int r = 0; r < wire->ranks; r++) {
    check_same(e, r, wire->shared->member[r].turn.call);
    check_places(e, r, wire->shared->member[r].turn.call);
  }
  check_untouched(e);
  if (e->kind == BD_FAKE_ALL_GATHER)
    gather(e);
  else
    bd_fake_combine(e->call, wire, e->dtype, e->op,
                    e->kind == BD_FAKE_REDUCE_SCATTER ? wire->rank * e->count : 0, e->count,
                    e->recv);
}

static int step_collective(bd_fake_exchange *e) {
  bd_fake_turn *const own = &e->comm->wire.shared->member[e->comm->wire.rank].turn;
  if (e->state == 0) {
    if (!all_taken(e)) return 0;
    begin(e);
    bd_fake_wire_write(&e->comm->wire, -1, e->send, send_bytes(e));
    own->call = call_of(e);
    own->posted = e->turn + 1;
  }
  if (!all_posted(e)) return 0;
  finish_collective(e);
  own->taken = e->turn + 1;
  return 1;
}

// A send is over when its receiver has taken it: a program may not count on more.
static int step_send(bd_fake_exchange *e) {
  const bd_fake_wire *const wire = &e->comm->wire;
  bd_fake_turn *const message = &wire->shared->message[wire->rank][e->root];
  if (e->state == 0) {
    if (message->taken < e->turn) return 0;
    begin(e);
    bd_fake_wire_write(wire, e->root, e->send, send_bytes(e));
    message->call = (bd_fake_call){.dtype = e->dtype, .count = e->count};
    message->posted = e->turn + 1;
  }
  if (message->taken <= e->turn) return 0;
  check_untouched(e);
  return 1;
}

static int step_recv(bd_fake_exchange *e) {
  const bd_fake_wire *const wire = &e->comm->wire;
  bd_fake_turn *const message = &wire->shared->message[e->root][wire->rank];
  if (e->state == 0) begin(e);
  if (message->posted <= e->turn) return 0;
  check_untouched(e);
  if (message->call.dtype != (int32_t)e->dtype || message->call.count != e->count)
    bd_fake_fault(e->call,
                  "rank %d expects %lld elements of type %d, rank %d sends %lld of type %d",
                  wire->rank, (long long)e->count, (int)e->dtype, e->root,
                  (long long)message->call.count, message->call.dtype);
  bd_fake_wire_read(wire, e->root, wire->rank, 0, e->recv, recv_bytes(e));
  message->taken = e->turn + 1;
  return 1;
}

int bd_fake_exchange_step(bd_fake_exchange *e) {
  if (e->kind == BD_FAKE_SEND) return step_send(e);
  if (e->kind == BD_FAKE_RECV) return step_recv(e);
  return step_collective(e);
}

int bd_fake_exchange_awaits(const bd_fake_exchange *e, int rank) {
  const bd_fake_turn *const turn = &e->comm->wire.shared->member[rank].turn;
  if (rank == e->comm->wire.rank || e->state > 1) return 0;
  if (e->kind == BD_FAKE_SEND || e->kind == BD_FAKE_RECV) return rank == e->root;
  return e->state ? turn->posted <= e->turn : turn->taken < e->turn;
}

// Of each kind there is a way for short ones and one for long ones, which NCCL calls algorithms.
static int way_of(const bd_fake_exchange *e) {
  enum { MOST_SHORT_BYTES = 1 << 10 };
  return 2 * (int)e->kind + (bytes_of(e, 1) > MOST_SHORT_BYTES);
}

void bd_fake_exchange_offer(const bd_fake_exchange *e) {
  const bd_fake_wire *const wire = &e->comm->wire;
  if (e->kind == BD_FAKE_SEND)
    wire->shared->sends[wire->rank][e->root] = 1;
  else if (e->kind == BD_FAKE_RECV)
    wire->shared->receives[e->root][wire->rank] = 1;
  else
    atomic_fetch_or(&wire->shared->member[wire->rank].collects, 1 << way_of(e));
}

int bd_fake_exchange_is_met(const bd_fake_exchange *e, int rank) {
  const bd_fake_wire *const wire = &e->comm->wire;
  if (e->kind == BD_FAKE_SEND) return rank != e->root || wire->shared->receives[wire->rank][rank];
  if (e->kind == BD_FAKE_RECV) return rank != e->root || wire->shared->sends[rank][wire->rank];
  return wire->shared->member[rank].collects >> way_of(e) & 1;
}
