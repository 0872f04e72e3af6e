// Command line of an emitted program.
#ifndef BD_RT_OPTIONS_H
#define BD_RT_OPTIONS_H
#include <stddef.h>
#include <stdint.h>

enum { BD_RT_TOKENS_BY_NAME, BD_RT_TOKENS_BYTES, BD_RT_TOKENS_U16, BD_RT_TOKENS_U32 };

typedef struct bd_rt_options {
  int64_t steps, warmup;
  uint64_t seed;
  // NULL where not given.
  const char *data, *eval, *init, *metrics, *save, *report, *profile, *tune, *checkpoint, *resume;
  int64_t checkpoint_every, checkpoint_keep, eval_every, eval_steps;
  double lr, min_lr, weight_decay, beta1, beta2, eps, momentum, clip;
  // Below or at 0 (the interval: below) where not given.
  double loss_scale, loss_scale_growth, loss_scale_backoff;
  int64_t loss_scale_interval;
  int tokenizer;
  int tf32, any_order, help;
} bd_rt_options;

// The options of a program with `optimizer` (BD_RT_SGD, ...), each given once at most. 0, or a
// usage error described in `message`. Strings point into argv.
int bd_rt_options_parse(int argc, char **argv, int optimizer, bd_rt_options *out_options,
                        char *message, size_t message_bytes);
const char *bd_rt_optimizer_name(int optimizer);
// Whether --save names a folder: by a slash at its end, so that all ranks say the same.
int bd_rt_options_name_folder(const char *save);
// The text of --help.
const char *bd_rt_options_help(void);
// Learning rate of step `step` (from 0): linear warmup, then a cosine from lr to min_lr at the last
// step.
double bd_rt_learning_rate(const bd_rt_options *options, int64_t step);
#endif
