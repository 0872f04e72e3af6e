// Models of images and volumes: what describes a member of each family, and the graph it becomes.
// Batch normalization couples samples and is no op; where the papers have it, these models
// normalize over the channels of every pixel, with as many weights.
#ifndef BD_FRONTEND_IMAGE_H
#define BD_FRONTEND_IMAGE_H
#include "frontend/frontend.h"

enum { BD_RESNET_STAGES = 4, BD_UNET_LEVELS = 5 };

// A residual network of bottleneck blocks (He et al., CVPR 2016, table 1; the stride of a stage is
// that of its first 3 x 3 convolution).
typedef struct bd_resnet_config {
  int64_t size;  // of an image, which is square
  int64_t width; // channels of the first convolution
  int64_t classes;
  int blocks[BD_RESNET_STAGES]; // 0 from some stage on: there are fewer
} bd_resnet_config;

// A U-Net of volumes (Cicek et al., MICCAI 2016, figure 2), with as many levels as have channels.
typedef struct bd_unet3d_config {
  int64_t size; // of a volume, which is a cube
  int64_t channels_in, classes;
  int64_t channels[BD_UNET_LEVELS];
} bd_unet3d_config;

// `loc` places diagnostics. Errors: BD_INVALID for options of sequences, which images are not.
BD_NODISCARD bd_status bd_resnet_build(bd_ctx *ctx, const char *name,
                                       const bd_resnet_config *config,
                                       const bd_model_options *options, bd_loc loc,
                                       bd_module **out_graph);
BD_NODISCARD bd_status bd_unet3d_build(bd_ctx *ctx, const char *name,
                                       const bd_unet3d_config *config,
                                       const bd_model_options *options, bd_loc loc,
                                       bd_module **out_graph);
#endif
