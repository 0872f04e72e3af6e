// Ranges of mixed clusters: caps, kinds, links and rings, against what is counted by hand.
#include "ir/cluster.h"
#include "tests/unit/context.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bd_ctx *ctx;

static int open(void **state) {
  int failed = make_ctx(state);
  ctx = *state;
  return failed;
}

static bd_cluster load(const char *spec) {
  bd_cluster out;
  assert_int_equal(bd_cluster_load(ctx, spec, &out), BD_OK);
  return out;
}

static void test_fields_are_the_slowest(void **unused) {
  (void)unused;
  bd_cluster a = load("a100-80gb:2x8"), v = load("v100:3x4"), both = load("a100-80gb:2x8+v100:3x4");
  assert_true(bd_cluster_is_mixed(&both));
  assert_false(bd_cluster_is_mixed(&a));
  assert_int_equal(bd_cluster_devices(&both), 28);
  assert_int_equal(both.devices_per_node, 4);
  assert_int_equal(both.nodes, 7);
  assert_true(both.flops.bf16 == v.flops.bf16 &&
              both.inter.bytes_per_second == v.inter.bytes_per_second);
  assert_true(both.memory_bytes - both.reserved_bytes == v.memory_bytes - v.reserved_bytes);
  assert_true(both.kernel_seconds == v.kernel_seconds);
}

static void test_kinds_and_caps(void **unused) {
  (void)unused;
  bd_cluster both = load("a100-80gb:2x8+v100:3x4+a100-80gb:1x2");
  assert_int_equal(both.kind_count, 2);
  assert_string_equal(bd_cluster_device_kind(&both, 0).name, "a100-80gb");
  assert_string_equal(bd_cluster_device_kind(&both, 15).name, "a100-80gb");
  assert_string_equal(bd_cluster_device_kind(&both, 16).name, "v100");
  assert_string_equal(bd_cluster_device_kind(&both, 28).name, "a100-80gb");
  bd_device_kind a = both.kinds[0], v = both.kinds[1];
  int64_t large = a.memory_bytes - a.reserved_bytes, small = v.memory_bytes - v.reserved_bytes;
  assert_true(bd_cluster_cap_bytes(&both, 0, 16) == large);
  assert_true(bd_cluster_cap_bytes(&both, 0, 17) == small);
  assert_true(bd_cluster_cap_bytes(&both, 27, 3) == small);
  assert_true(bd_cluster_cap_bytes(&both, 28, 2) == large);
}

static void test_parts(void **unused) {
  (void)unused;
  bd_cluster both = load("a100-80gb:2x8+v100:3x4"), part;
  bd_cluster_part(ctx, &both, 0, 16, &part);
  assert_false(bd_cluster_is_mixed(&part));
  assert_int_equal(part.nodes, 2);
  assert_int_equal(part.devices_per_node, 8);
  assert_true(part.flops.bf16 == both.kinds[0].flops.bf16);
  assert_int_equal(bd_cluster_check(ctx, &part, BD_NOWHERE), BD_OK);
  bd_cluster_part(ctx, &both, 4, 8, &part); // half a node and half a node
  assert_false(bd_cluster_is_mixed(&part));
  assert_int_equal(part.nodes, 2);
  assert_int_equal(part.devices_per_node, 4);
  assert_true(part.inter.bytes_per_second == both.groups[0].inter.bytes_per_second);
  bd_cluster_part(ctx, &both, 12, 12, &part); // four, and two nodes of four
  assert_true(bd_cluster_is_mixed(&part));
  assert_int_equal(part.group_count, 2);
  assert_int_equal(part.groups[1].nodes, 2);
  assert_int_equal(bd_cluster_devices(&part), 12);
  assert_true(part.flops.bf16 == both.kinds[1].flops.bf16);
  assert_int_equal(bd_cluster_check(ctx, &part, BD_NOWHERE), BD_OK);
  bd_cluster uniform = load("h100:4x8");
  bd_cluster_part(ctx, &uniform, 8, 16, &part);
  assert_false(bd_cluster_is_mixed(&part));
  assert_int_equal(part.nodes, 2);
  assert_true(part.node.switch_sum.bytes_per_second > 0);
}

static void test_links(void **unused) {
  (void)unused;
  bd_cluster both = load("a100-80gb:2x8+v100:3x4");
  bd_link near = bd_cluster_link_between(&both, 0, 2, 2);
  assert_true(near.bytes_per_second == both.groups[0].intra.bytes_per_second);
  bd_link far = bd_cluster_link_between(&both, 0, 8, 8);
  assert_true(far.bytes_per_second == both.groups[0].inter.bytes_per_second);
  bd_link across = bd_cluster_link_between(&both, 12, 16, 4);
  assert_true(across.bytes_per_second == both.groups[1].inter.bytes_per_second);
  bd_link slowest = bd_cluster_link_between(&both, 4, 6, 4); // 6 and 7 reach the next node
  assert_true(slowest.bytes_per_second == both.groups[0].inter.bytes_per_second);
}

// What is said per node is shared by the node's devices, each of which starts as late as one alone.
static void test_shared_links(void **unused) {
  (void)unused;
  static const char *const names[] = {"rtx-4090", "cpu"};
  for (int i = 0; i < 2; i++) {
    bd_cluster one = load(bd_intern_f(ctx, "%s:2x1", names[i]));
    bd_cluster eight = load(bd_intern_f(ctx, "%s:2x8", names[i]));
    assert_true(8 * eight.inter.bytes_per_second == one.inter.bytes_per_second);
    assert_true(8 * eight.inter.half_rate_bytes == one.inter.half_rate_bytes);
    assert_true(eight.inter.latency_seconds == one.inter.latency_seconds);
    assert_true(eight.intra.bytes_per_second == one.intra.bytes_per_second);
  }
  assert_true(load("l40s:2x8").inter.bytes_per_second == load("l40s:2x1").inter.bytes_per_second);
  bd_cluster both = load("rtx-4090:2x8+l40s:2x4+rtx-4090:2x2");
  assert_true(4 * both.groups[0].inter.bytes_per_second == both.groups[2].inter.bytes_per_second);
  assert_true(bd_cluster_link_between(&both, 0, 16, 8).bytes_per_second ==
              both.groups[0].inter.bytes_per_second);
  assert_true(bd_cluster_link_between(&both, 16, 24, 4).bytes_per_second ==
              both.groups[2].inter.bytes_per_second);
}

static void expect_ring(const bd_cluster *c, int stride, int ranks, int levels, const int *counts) {
  bd_ring ring = bd_cluster_ring(c, stride, ranks);
  assert_int_equal(ring.ranks, ranks);
  assert_int_equal(ring.levels, levels);
  for (int i = 0; i < levels; i++)
    assert_int_equal(ring.level[i].ranks, counts[i]);
}

static void test_rings(void **unused) {
  (void)unused;
  bd_cluster h = load("h100:4x8"), islands = h;
  expect_ring(&h, 1, 1, 0, NULL);
  expect_ring(&h, 1, 8, 1, (int[]){8});
  expect_ring(&h, 2, 4, 1, (int[]){4});
  expect_ring(&h, 1, 32, 2, (int[]){8, 4});
  expect_ring(&h, 4, 8, 2, (int[]){2, 4});
  expect_ring(&h, 8, 4, 1, (int[]){4});
  expect_ring(&h, 1, 6, 1, (int[]){6}); // does not fit the nodes: all apart
  assert_true(bd_cluster_ring(&h, 1, 6).level[0].link.bytes_per_second == h.inter.bytes_per_second);
  assert_true(bd_cluster_ring(&h, 1, 8).switch_sum.bytes_per_second > 0);
  assert_true(bd_cluster_ring(&h, 1, 16).switch_sum.bytes_per_second == 0);
  islands.node.island_devices = 4;
  islands.node.island = h.intra;
  islands.intra.bytes_per_second = 20e9;
  expect_ring(&islands, 1, 32, 3, (int[]){4, 2, 4});
  expect_ring(&islands, 2, 4, 2, (int[]){2, 2});
  expect_ring(&islands, 4, 2, 1, (int[]){2});
  assert_true(bd_cluster_ring(&islands, 4, 2).level[0].link.bytes_per_second == 20e9);
  bd_cluster both = load("a100-80gb:2x8+v100:4x4");
  expect_ring(&both, 1, 32, 3, (int[]){4, 4, 2});
  expect_ring(&both, 16, 2, 1, (int[]){2});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_fields_are_the_slowest, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_kinds_and_caps, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_parts, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_links, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_shared_links, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_rings, open, drop_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
