#include "ir/cluster.h"

#define GIB ((int64_t)1 << 30)
#define MIB ((int64_t)1 << 20)

// Rates are what large operations reach, not the vendor's peaks; docs/costs.md has the source of
// every number. f32 products are without TF32. Links are per device and direction, `inter` of
// presets whose `node_inter` is set per node. `reserved_bytes` covers the driver's context, the
// collectives' buffers and the libraries.

// Products in tiles of 128 x `columns`, one on each of the device's units at a time.
#define TILES(units, columns)                                                                      \
  .product_edge = 16, .product_depth = 128, .product_wave = (units)*128.0 * (columns)

// Of attention in one kernel: parts of the rate of products, that of f32 products which generated
// kernels for halves reach, and where half is left.
#define ATTENTION(forward, backward, generated)                                                    \
  .attention_forward = (forward), .attention_backward = (backward),                                \
  .attention_generated = (generated), .attention_generated_f32 = 0.7, .attention_tokens = 330,     \
  .attention_width = 64

#define HOST(memory, rate) .host_memory_bytes = (memory), .host_bytes_per_second = (rate)

// Units that take bf16 and f16 at one rate, and 8 bits at another or (0) not at all.
#define FLOPS(wide, half, eight) .flops = {(wide), (half), (half), (eight)}

// A preset whose devices are GPUs, by what sets it apart.
#define GPU(preset, words, ...) GPU_NODE(preset, words, false, __VA_ARGS__)
#define GPU_NODE(preset, words, shares_inter, ...)                                                 \
  {                                                                                                \
    .name = (preset), .summary = (words), .node_inter = (shares_inter), .cluster = {               \
      .name = (preset),                                                                            \
      .nodes = 1,                                                                                  \
      .devices_per_node = 1,                                                                       \
      .gpu = true,                                                                                 \
      .threads_per_device = 1,                                                                     \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }

// What all A100s have alike.
#define A100                                                                                       \
  FLOPS(18e12, 258e12, 0), .kernel_seconds = 4e-6, .intra = {1.2e-6, 230e9, 650e3},                \
                           .inter = {5e-6, 22e9, 300e3}, .node = {HOST(1024 * GIB, 24e9)}
#define A100_80GB A100, .memory_bytes = 81050 * MIB, .memory_bytes_per_second = 1.75e12

static const bd_cluster_preset presets[] = {
    GPU("v100", "V100 32 GB: NVLink 2 in the node, 100 Gb/s per device between; no bf16 units",
        .memory_bytes = 32510 * MIB, .reserved_bytes = 2 * GIB, .flops = {14e12, 14e12, 79e12, 0},
        .memory_bytes_per_second = 0.8e12, .kernel_seconds = 5e-6, .lacks = 1u << BD_BF16,
        .intra = {1.2e-6, 120e9, 340e3}, .inter = {5e-6, 11e9, 150e3},
        .work = {TILES(80, 128), ATTENTION(1.2, 1.05, 3.3)}, .node = {HOST(512 * GIB, 12e9)}),
    GPU("a100-40gb", "A100 40 GB: NVLink 3 in the node, 200 Gb/s per device between", A100,
        .memory_bytes = 40536 * MIB, .reserved_bytes = 3 * GIB, .memory_bytes_per_second = 1.35e12,
        .work = {TILES(108, 128), ATTENTION(1.2, 1.05, 3.2)}),
    GPU("a100-80gb", "A100 80 GB: NVLink 3 in the node, 200 Gb/s per device between", A100_80GB,
        .reserved_bytes = 3 * GIB, .work = {TILES(108, 128), ATTENTION(1.2, 1.05, 3.2)}),
    GPU("a100-80gb-2021",
        "the same as programs of 2021 used it: attention goes through memory, nothing beside "
        "backward",
        A100_80GB, .reserved_bytes = 2 * GIB,
        .work = {TILES(108, 128), .attention_materialized = true, .gradients_exposed = 1}),
    GPU("h100", "H100 80 GB: NVLink 4 in the node, 400 Gb/s per device between",
        .memory_bytes = 81079 * MIB, .reserved_bytes = 4 * GIB, FLOPS(50e12, 720e12, 1300e12),
        .memory_bytes_per_second = 2.8e12, .kernel_seconds = 3e-6, .intra = {2.5e-6, 365e9, 1.4e6},
        .inter = {5e-6, 44e9, 600e3}, .work = {TILES(132, 256), ATTENTION(1.1, 1.1, 2)},
        .node = {.switch_sum = {39e-6, 270e9, 27e6}, HOST(2048 * GIB, 55e9)}),
    GPU("h200", "H200 141 GB: NVLink 4 in the node, 400 Gb/s per device between",
        .memory_bytes = 143156 * MIB, .reserved_bytes = 4 * GIB, FLOPS(50e12, 720e12, 1300e12),
        .memory_bytes_per_second = 4.1e12, .kernel_seconds = 3e-6, .intra = {2.5e-6, 365e9, 1.4e6},
        .inter = {5e-6, 44e9, 600e3}, .work = {TILES(132, 256), ATTENTION(1.1, 1.1, 2)},
        .node = {.switch_sum = {39e-6, 270e9, 27e6}, HOST(2048 * GIB, 55e9)}),
    GPU("b200", "B200 180 GB: NVLink 5 in the node, 400 Gb/s per device between",
        .memory_bytes = 182642 * MIB, .reserved_bytes = 9 * GIB / 2, FLOPS(65e12, 1658e12, 3000e12),
        .memory_bytes_per_second = 6.8e12, .kernel_seconds = 3e-6, .intra = {2.5e-6, 720e9, 2.8e6},
        .inter = {5e-6, 44e9, 600e3}, .work = {TILES(148, 256), ATTENTION(1.3, 1.1, 1.7)},
        .node = {.switch_sum = {39e-6, 540e9, 54e6}, HOST(2048 * GIB, 55e9)}),
    GPU_NODE("rtx-4090",
             "RTX 4090 24 GB: PCIe 4 through the host in the node, 100 Gb/s per node between", true,
             .memory_bytes = 24564 * MIB, .reserved_bytes = 3 * GIB / 2, FLOPS(60e12, 150e12, 0),
             .memory_bytes_per_second = 0.9e12, .kernel_seconds = 3e-6,
             .intra = {4e-6, 10e9, 100e3}, .inter = {10e-6, 11e9, 220e3},
             .work = {TILES(128, 128), ATTENTION(1.4, 1.1, 2.1)}, .node = {HOST(256 * GIB, 24e9)}),
    GPU("l40s", "L40S 48 GB: PCIe 4 in the node, 100 Gb/s per device between",
        .memory_bytes = 46068 * MIB, .reserved_bytes = 2 * GIB, FLOPS(55e12, 230e12, 0),
        .memory_bytes_per_second = 0.75e12, .kernel_seconds = 4e-6, .intra = {3e-6, 20e9, 150e3},
        .inter = {8e-6, 11e9, 150e3}, .work = {TILES(142, 128), ATTENTION(1.2, 1.0, 2.5)},
        .node = {HOST(512 * GIB, 24e9)}),
    {.name = "cpu",
     .summary = "one rank of a server's CPU: 8 cores and 32 GiB each, shared memory, 25 Gb/s per "
                "node between",
     .node_inter = true,
     .cluster = {.name = "cpu",
                 .nodes = 1,
                 .devices_per_node = 1,
                 .memory_bytes = 32 * GIB,
                 .reserved_bytes = 128 * MIB,
                 FLOPS(400e9, 400e9, 400e9),
                 .memory_bytes_per_second = 40e9,
                 .kernel_seconds = 2e-6,
                 .intra = {2e-6, 5e9, 0},
                 .inter = {30e-6, 2.5e9, 0},
                 .gpu = false,
                 .threads_per_device = 8}},
    {.name = "mixed",
     .summary = "half of the nodes a100-80gb, half v100",
     .halves = {"a100-80gb", "v100"}},
};

const bd_cluster_preset *bd_cluster_presets(int *out_count) {
  *out_count = (int)(sizeof presets / sizeof presets[0]);
  return presets;
}
