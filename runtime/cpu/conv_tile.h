// Parts of images in the layouts of convolution kernels.
#ifndef BD_RT_CPU_CONV_TILE_H
#define BD_RT_CPU_CONV_TILE_H
#include <stdint.h>

// `channels` planes of extents `image`, of which a tile holds points: along each dimension as many
// as its extent, `step` apart from `first` on, which may lie outside. The tile has all_channels,
// and more where `block` does not divide them: see bd_rt_conv_kernel. Planes are of f32 or halves;
// their elements lie `point` apart and those of the next plane `plane`, one of which is 1.
typedef struct bd_rt_tile {
  int64_t block, channels, all_channels;
  int64_t image[3], extents[3], first[3], step[3];
  int64_t plane, point;
  int dtype;
} bd_rt_tile;

int64_t bd_rt_tile_floats(const bd_rt_tile *tile);
// Zeros stand for what the planes do not have.
void bd_rt_tile_pack(const bd_rt_tile *tile, const void *planes, float *out);
// What lies outside is dropped.
void bd_rt_tile_unpack(const bd_rt_tile *tile, const float *packed, void *planes);
#endif
