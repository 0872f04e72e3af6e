// Graphs of primitive ops, as text, for the tests that cut functions over ranks.
#ifndef PRIMITIVES_H
#define PRIMITIVES_H

// Every pointwise op on elements of many types, and values from nothing.
static const char pointwise_graph[] =
    "braid graph \"pointwise\" {\n"
    "  weight @w : f32[6,10] stored \"w\" [6,10] init ones\n"
    "  weight @v : f32[10] stored \"v\" [10] init ones\n"
    "  func @f(%x: f32[B,6,10], %w: f32[6,10] weight, %v: f32[10] weight) {\n"
    "    %i = iota() {dtype=\"i32\", dims=[-1,6,10], dim=2} : i32[B,6,10]\n"
    "    %k = constant() {dtype=\"i32\", dims=[10], values=[3,1,4,1,5,9,2,6,5,3]} : i32[10]\n"
    "    %q = mod(%i, %k) : i32[B,6,10]\n"
    "    %two = constant() {dtype=\"i32\", dims=[-1,6,10], value=2} : i32[B,6,10]\n"
    "    %small = lt(%q, %two) : bool[B,6,10]\n"
    "    %some = constant() {dtype=\"bool\", dims=[6,10], value=1} : bool[6,10]\n"
    "    %c = xor(%small, %some) : bool[B,6,10]\n"
    "    %s = select(%c, %x, %w) : f32[B,6,10]\n"
    "    %sin = sin(%s) : f32[B,6,10]\n"
    "    %cos = cos(%v) : f32[10]\n"
    "    %m = max(%sin, %cos) : f32[B,6,10]\n"
    "    %n = min(%m, %w) : f32[B,6,10]\n"
    "    %a = abs(%n) : f32[B,6,10]\n"
    "    %one = offset(%a) {value=1.0} : f32[B,6,10]\n"
    "    %p = pow(%one, %v) : f32[B,6,10]\n"
    "    %r = round(%x) : f32[B,6,10]\n"
    "    %u = cast(%r) {dtype=\"u8\"} : u8[B,6,10]\n"
    "    %b = cast(%u) {dtype=\"f32\"} : f32[B,6,10]\n"
    "    %y = mul(%p, %b) : f32[B,6,10]\n"
    "    %e = erf(%y) : f32[B,6,10]\n"
    "    %z = add(%e, %p) : f32[B,6,10]\n"
    "    %l = reduce_sum(%z) {rule=\"ABC->\"} : f32[]\n"
    "    return %l\n"
    "  }\n"
    "  main(%x: f32[B,6,10] reals, %w: f32[6,10] weight, %v: f32[10] weight) {\n"
    "    %loss = call @f(%x, %w, %v) : f32[]\n"
    "    return %loss\n"
    "  }\n"
    "}\n";
#endif
