// Blocks of encoders as BERT and ViT have them: attention to all positions, and a perceptron.
#ifndef BD_FRONTEND_ENCODER_H
#define BD_FRONTEND_ENCODER_H
#include "frontend/transformer.h"
#include "frontend/transformer_parts.h"

typedef struct bd_encoder {
  const bd_encoder_config *config;
  int64_t sequence;
  const bd_encoder_names *names;
  bd_id hidden; // of the keys, see bd_transformer_hide; BD_NO_ID: none is
} bd_encoder;

enum { BD_SITE_EMBEDDING, BD_SITE_ATTENTION, BD_SITE_PROJECTION, BD_SITE_PERCEPTRON };

// What attention, and the perceptron, add to the stream, given what they read.
bd_id bd_encoder_attend(bd_graph_build *build, bd_layer *layer, const bd_encoder *encoder, bd_id x);
bd_id bd_encoder_perceive(bd_graph_build *build, bd_layer *layer, const bd_encoder *encoder,
                          bd_id x);
#endif
