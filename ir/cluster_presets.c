#include "ir/cluster.h"

#define GIB ((int64_t)1 << 30)
#define MIB ((int64_t)1 << 20)

// Rates are what large operations reach, about 75 to 90 % of the vendor's peak: matrix products
// without TF32 for f32, links per device and direction. `reserved_bytes` covers the driver's
// context, the collectives' buffers and the libraries.
static const bd_cluster_preset presets[] = {
    {"v100",
     "V100 32 GB: NVLink 2 in the node, 100 Gb/s per device between; no bf16 units",
     {.name = "v100", .nodes = 1, .devices_per_node = 1, .memory_bytes = 32510 * MIB,
      .reserved_bytes = 3 * GIB / 2, .flops_f32 = 14e12, .flops_bf16 = 14e12,
      .memory_bytes_per_second = 0.8e12, .kernel_seconds = 5e-6,
      .intra = {6e-6, 120e9}, .inter = {12e-6, 11e9}, .gpu = true, .threads_per_device = 1}},
    {"a100-40gb",
     "A100 40 GB: NVLink 3 in the node, 200 Gb/s per device between",
     {.name = "a100-40gb", .nodes = 1, .devices_per_node = 1, .memory_bytes = 40536 * MIB,
      .reserved_bytes = 2 * GIB, .flops_f32 = 18e12, .flops_bf16 = 250e12,
      .memory_bytes_per_second = 1.35e12, .kernel_seconds = 4e-6,
      .intra = {5e-6, 230e9}, .inter = {10e-6, 22e9}, .gpu = true, .threads_per_device = 1}},
    {"a100-80gb",
     "A100 80 GB: NVLink 3 in the node, 200 Gb/s per device between",
     {.name = "a100-80gb", .nodes = 1, .devices_per_node = 1, .memory_bytes = 81050 * MIB,
      .reserved_bytes = 2 * GIB, .flops_f32 = 18e12, .flops_bf16 = 250e12,
      .memory_bytes_per_second = 1.75e12, .kernel_seconds = 4e-6,
      .intra = {5e-6, 230e9}, .inter = {10e-6, 22e9}, .gpu = true, .threads_per_device = 1}},
    {"h100",
     "H100 80 GB: NVLink 4 in the node, 400 Gb/s per device between",
     {.name = "h100", .nodes = 1, .devices_per_node = 1, .memory_bytes = 81079 * MIB,
      .reserved_bytes = 5 * GIB / 2, .flops_f32 = 50e12, .flops_bf16 = 700e12,
      .memory_bytes_per_second = 2.8e12, .kernel_seconds = 3e-6,
      .intra = {4e-6, 360e9}, .inter = {8e-6, 44e9}, .gpu = true, .threads_per_device = 1}},
    {"h200",
     "H200 141 GB: NVLink 4 in the node, 400 Gb/s per device between",
     {.name = "h200", .nodes = 1, .devices_per_node = 1, .memory_bytes = 143156 * MIB,
      .reserved_bytes = 5 * GIB / 2, .flops_f32 = 50e12, .flops_bf16 = 700e12,
      .memory_bytes_per_second = 4.1e12, .kernel_seconds = 3e-6,
      .intra = {4e-6, 360e9}, .inter = {8e-6, 44e9}, .gpu = true, .threads_per_device = 1}},
    {"b200",
     "B200 180 GB: NVLink 5 in the node, 400 Gb/s per device between",
     {.name = "b200", .nodes = 1, .devices_per_node = 1, .memory_bytes = 182642 * MIB,
      .reserved_bytes = 3 * GIB, .flops_f32 = 65e12, .flops_bf16 = 1650e12,
      .memory_bytes_per_second = 6.8e12, .kernel_seconds = 3e-6,
      .intra = {4e-6, 720e9}, .inter = {8e-6, 44e9}, .gpu = true, .threads_per_device = 1}},
    {"cpu",
     "one rank of a server's CPU: 8 cores and 32 GiB each, shared memory, 25 Gb/s between",
     {.name = "cpu", .nodes = 1, .devices_per_node = 1, .memory_bytes = 32 * GIB,
      .reserved_bytes = 128 * MIB, .flops_f32 = 400e9, .flops_bf16 = 400e9,
      .memory_bytes_per_second = 40e9, .kernel_seconds = 2e-6,
      .intra = {2e-6, 5e9}, .inter = {30e-6, 2.5e9}, .gpu = false, .threads_per_device = 8}},
};

const bd_cluster_preset *bd_cluster_presets(int *out_count) {
  *out_count = (int)(sizeof presets / sizeof presets[0]);
  return presets;
}
