#include "runtime/options.h"

#include "runtime/braid_rt_abi.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { TEXT, COUNT, SEED, REAL, TOKENIZER, SWITCH } kind;

typedef struct option {
  const char *name;
  kind kind;
  size_t offset;
  double least, most;  // of reals; most itself is allowed only where it is finite and inclusive
  int open;            // `most` is excluded
  unsigned optimizers; // of programs with these alone, a bit each; 0: of all
} option;

#define MOST_COUNT (INT64_C(1) << 40)
#define AT(field) offsetof(bd_rt_options, field)
#define ADAMS (1u << BD_RT_ADAMW | 1u << BD_RT_ADAM)
static const option options_table[] = {
    {"steps", COUNT, AT(steps), 0, 0, 0, 0},
    {"warmup", COUNT, AT(warmup), 0, 0, 0, 0},
    {"seed", SEED, AT(seed), 0, 0, 0, 0},
    {"data", TEXT, AT(data), 0, 0, 0, 0},
    {"eval", TEXT, AT(eval), 0, 0, 0, 0},
    {"eval-every", COUNT, AT(eval_every), 0, 0, 0, 0},
    {"eval-steps", COUNT, AT(eval_steps), 0, 0, 0, 0},
    {"init", TEXT, AT(init), 0, 0, 0, 0},
    {"metrics", TEXT, AT(metrics), 0, 0, 0, 0},
    {"save", TEXT, AT(save), 0, 0, 0, 0},
    {"checkpoint", TEXT, AT(checkpoint), 0, 0, 0, 0},
    {"checkpoint-every", COUNT, AT(checkpoint_every), 0, 0, 0, 0},
    {"checkpoint-keep", COUNT, AT(checkpoint_keep), 0, 0, 0, 0},
    {"resume", TEXT, AT(resume), 0, 0, 0, 0},
    {"report", TEXT, AT(report), 0, 0, 0, 0},
    {"profile", TEXT, AT(profile), 0, 0, 0, 0},
    {"tune", TEXT, AT(tune), 0, 0, 0, 0},
    {"lr", REAL, AT(lr), 0, 1e6, 0, 0},
    {"min-lr", REAL, AT(min_lr), 0, 1e6, 0, 0},
    {"weight-decay", REAL, AT(weight_decay), 0, 1e6, 0, 0},
    {"beta1", REAL, AT(beta1), 0, 1, 1, ADAMS},
    {"beta2", REAL, AT(beta2), 0, 1, 1, ADAMS},
    {"eps", REAL, AT(eps), 0, 1, 0, ADAMS},
    {"momentum", REAL, AT(momentum), 0, 1, 1, 1u << BD_RT_MOMENTUM},
    {"clip", REAL, AT(clip), 0, 1e30, 0, 0},
    {"loss-scale", REAL, AT(loss_scale), 1, 0x1p100, 0, 0},
    {"loss-scale-growth", REAL, AT(loss_scale_growth), 1, 0x1p20, 0, 0},
    {"loss-scale-backoff", REAL, AT(loss_scale_backoff), 0x1p-20, 1, 1, 0},
    {"loss-scale-interval", COUNT, AT(loss_scale_interval), 0, 0, 0, 0},
    {"tokenizer", TOKENIZER, AT(tokenizer), 0, 0, 0, 0},
    {"tf32", SWITCH, AT(tf32), 0, 0, 0, 0},
    {"any-order", SWITCH, AT(any_order), 0, 0, 0, 0},
};
enum {
  OPTIONS = sizeof options_table / sizeof options_table[0],
  MOST_NAME = 32,
  KEPT = 2,
  EVAL_STEPS = 20
};
_Static_assert(OPTIONS <= 64, "options that are given are bits of a word");

const char *bd_rt_options_help(void) {
  return "Trains the model that this program was compiled for.\n"
         "\n"
         "Options (--name VALUE or --name=VALUE, each once):\n"
         "  --data PATH         training data: a token file as nanoGPT writes it (uint16, no "
         "header) or\n"
         "                      llm.c (with its header), Megatron's NAME.idx beside NAME.bin, or "
         "text (.txt)\n"
         "                      that is read byte by byte; for models without tokens a safetensors "
         "file with\n"
         "                      `inputs` and `targets`, or a folder with inputs.npy and "
         "targets.npy\n"
         "  --eval PATH         held-out data, of the same kinds: the loss on it is told before "
         "the "
         "first step,\n"
         "                      after the last one and every --eval-every N steps (0: not), over "
         "the first\n"
         "                      --eval-steps N (20) global batches of it, or as many as it has\n"
         "  --tokenizer KIND    read both as `bytes`, `u16` or `u32` whatever their names\n"
         "  --steps N           steps to train (10)\n"
         "  --seed N            seed of initialization, sampling and dropout (1)\n"
         "  --init FILE         start from these weights: safetensors, or a Hugging Face folder\n"
         "  --save FILE         write the weights at the end (safetensors); FOLDER/ writes a "
         "folder "
         "like that\n"
         "                      of --init: same files and names\n"
         "  --checkpoint FOLDER write all that training goes on from: at the end, at SIGTERM and "
         "SIGUSR1, which\n"
         "                      end the run with status 15, and every --checkpoint-every N steps "
         "(0: "
         "not);\n"
         "                      the newest --checkpoint-keep N (2) stay\n"
         "  --resume FOLDER     go on from the newest checkpoint there, written under this plan or "
         "another;\n"
         "                      with --checkpoint of the same folder a run that has none begins\n"
         "  --metrics FILE      write one JSON object per step and evaluation\n"
         "  --report FILE       write bytes per rank as JSON\n"
         "  --profile FILE      write a trace of the last step, for Perfetto or chrome://tracing, "
         "and "
         "seconds\n"
         "                      per instruction and rank as JSON\n"
         "  --lr X              learning rate (3e-4)\n"
         "  --warmup N          steps of linear warmup (0)\n"
         "  --min-lr X          where the cosine after the warmup ends (the learning rate: no "
         "decay)\n"
         "  --weight-decay X    weight decay (0.1): decoupled with AdamW and Adafactor, else added "
         "to the\n"
         "                      gradient\n"
         "  --beta1 X --beta2 X --eps X   AdamW and Adam (0.9, 0.95, 1e-8)\n"
         "  --momentum X        SGD with momentum (0.9)\n"
         "  --clip X            bound of the global gradient norm, 0 for none (1)\n"
         "  --loss-scale X      fp16 programs: the first factor of the loss (65536); "
         "--loss-scale-backoff X\n"
         "                      (0.5) at a step that overflows and is skipped, --loss-scale-growth "
         "X (2)\n"
         "                      after --loss-scale-interval N (2000, 0: never) steps without\n"
         "  --tf32              GPUs: products of f32 in TF32, faster and less precise\n"
         "  --any-order         GPUs: attention adds up gradients in any order: faster, and the "
         "last bits of\n"
         "                      losses differ from run to run\n"
         "  --tune FILE         GPUs: use the algorithms of this file for matrix products; where "
         "there is none,\n"
         "                      measure some at the start and write those that are fastest\n"
         "  --help              this text\n"
         "\n"
         "Exit status: 0 done, 2 usage, 4 MPI, the device or an output failed, 5 internal error, "
         "10\n"
         "another rank ended early, 11 the loss is not finite, 12 data or weights are missing or\n"
         "unusable, 13 wrong number of ranks, 14 this machine cannot run the code.\n";
}

static int parse_whole(const char *text, uint64_t most, uint64_t *out_value) {
  if (text[0] < '0' || text[0] > '9') return 0;
  char *end = NULL;
  errno = 0;
  const unsigned long long value = strtoull(text, &end, 10);
  if (errno || *end || value > most) return 0;
  *out_value = value;
  return 1;
}

static int parse_real(const option *option, const char *text, double *out_value) {
  char *end = NULL;
  const double value = strtod(text, &end);
  if (end == text || *end || !isfinite(value) || value < option->least || value > option->most)
    return 0;
  if (option->open && value >= option->most) return 0;
  *out_value = value;
  return 1;
}

static int parse_tokenizer(const char *text, int *out_value) {
  static const char *const names[] = {"auto", "bytes", "u16", "u32"};
  for (int i = 0; i < 4; i++)
    if (!strcmp(text, names[i])) {
      *out_value = i;
      return 1;
    }
  return 0;
}

static int parse_value(const option *option, const char *text, bd_rt_options *options) {
  void *const field = (char *)options + option->offset;
  uint64_t whole = 0;
  switch (option->kind) {
  case TEXT:
    *(const char **)field = text;
    return text[0] != 0;
  case COUNT:
    if (!parse_whole(text, MOST_COUNT, &whole)) return 0;
    *(int64_t *)field = (int64_t)whole;
    return 1;
  case SEED:
    return parse_whole(text, UINT64_MAX, field);
  case REAL:
    return parse_real(option, text, field);
  case TOKENIZER:
    return parse_tokenizer(text, field);
  case SWITCH:
    *(int *)field = 1;
    return 1;
  }
  return 0;
}

// What values an option can take.
static void name_values(const option *option, char *text, size_t bytes) {
  switch (option->kind) {
  case TEXT:
    snprintf(text, bytes, "a name that is not empty");
    break;
  case COUNT:
    snprintf(text, bytes, "a whole number from 0 to %lld", (long long)MOST_COUNT);
    break;
  case SEED:
    snprintf(text, bytes, "a whole number from 0 to %llu", (unsigned long long)UINT64_MAX);
    break;
  case REAL:
    snprintf(text, bytes, "a number from %g to %s%g", option->least, option->open ? "below " : "",
             option->most);
    break;
  case TOKENIZER:
    snprintf(text, bytes, "auto, bytes, u16 or u32");
    break;
  case SWITCH:
    break;
  }
}

static const option *find_option(const char *name, size_t length) {
  for (int i = 0; i < OPTIONS; i++)
    if (strlen(options_table[i].name) == length && !memcmp(options_table[i].name, name, length))
      return &options_table[i];
  return NULL;
}

// Edits (insert, delete, replace) from one word to the other; `a` is at most MOST_NAME long.
static int edits(const char *a, size_t a_length, const char *b) {
  int row[MOST_NAME + 1];
  for (size_t i = 0; i <= a_length; i++)
    row[i] = (int)i;
  for (; *b; b++)
    for (size_t i = 1, diagonal = (size_t)row[0]++; i <= a_length; i++) {
      const int replaced = (int)diagonal + (a[i - 1] != *b);
      const int other = 1 + (row[i] < row[i - 1] ? row[i] : row[i - 1]);
      diagonal = (size_t)row[i];
      row[i] = replaced < other ? replaced : other;
    }
  return row[a_length];
}

// Says which option may be meant, where a third of its letters at most are wrong.
static int fail_unknown(const char *argument, const char *name, size_t length, char *message,
                        size_t message_bytes) {
  const option *nearest = NULL;
  int least = (int)(length + 2) / 3 + 1;
  for (int i = 0; i < OPTIONS && length <= MOST_NAME; i++) {
    const int now = edits(name, length, options_table[i].name);
    if (now >= least) continue;
    least = now;
    nearest = &options_table[i];
  }
  if (nearest)
    snprintf(message, message_bytes, "unknown argument '%s'; is --%s meant? --help lists them",
             argument, nearest->name);
  else
    snprintf(message, message_bytes, "unknown argument '%s'; --help lists them", argument);
  return BD_RT_EXIT_USAGE;
}

static int fail(char *message, size_t message_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int fail(char *message, size_t message_bytes, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(message, message_bytes, format, values);
  va_end(values);
  return BD_RT_EXIT_USAGE;
}

// Reads argv[*at], and its value behind it. `given` has a bit for each option so far.
static int read_option(int argc, char **argv, int *at, uint64_t *given, bd_rt_options *options,
                       char *message, size_t message_bytes) {
  const char *const argument = argv[*at];
  const int dashes = !strncmp(argument, "--", 2);
  const char *const name = argument + (dashes ? 2 : 0);
  const size_t length = strcspn(name, "=");
  const option *const option = dashes ? find_option(name, length) : NULL;
  if (!option) return fail_unknown(argument, name, length, message, message_bytes);
  const uint64_t bit = UINT64_C(1) << (option - options_table);
  if (*given & bit) return fail(message, message_bytes, "--%s is given twice", option->name);
  *given |= bit;
  if (option->kind == SWITCH && name[length] == '=')
    return fail(message, message_bytes, "--%s takes no value", option->name);
  const char *const value = option->kind == SWITCH ? ""
                            : name[length] == '='  ? name + length + 1
                            : *at + 1 < argc       ? argv[++*at]
                                                   : NULL;
  if (!value) return fail(message, message_bytes, "--%s needs a value", option->name);
  if (parse_value(option, value, options)) return 0;
  char values[64] = "";
  name_values(option, values, sizeof values);
  return fail(message, message_bytes, "--%s takes %s, not '%s'", option->name, values, value);
}

const char *bd_rt_optimizer_name(int optimizer) {
  static const char *const names[] = {[BD_RT_SGD] = "sgd",
                                      [BD_RT_ADAMW] = "adamw",
                                      [BD_RT_MOMENTUM] = "momentum",
                                      [BD_RT_ADAM] = "adam",
                                      [BD_RT_ADAFACTOR] = "adafactor"};
  return names[optimizer];
}

// Options that the optimizer has no use for, and rates that would rise.
static int check_together(const bd_rt_options *options, uint64_t given, int optimizer,
                          char *message, size_t message_bytes) {
  for (int i = 0; i < OPTIONS; i++) {
    const unsigned wanted = options_table[i].optimizers;
    if (!(given >> i & 1) || !wanted || wanted >> optimizer & 1) continue;
    return fail(message, message_bytes,
                "--%s is for programs compiled with --optimizer %s, this one is with %s",
                options_table[i].name, wanted == ADAMS ? "adamw or adam" : "momentum",
                bd_rt_optimizer_name(optimizer));
  }
  if (!options->checkpoint && (options->checkpoint_every > 0 || options->checkpoint_keep != KEPT))
    return fail(message, message_bytes, "--checkpoint FOLDER is needed to write checkpoints");
  if (options->checkpoint_keep == 0)
    return fail(message, message_bytes, "--checkpoint-keep takes at least 1");
  if (!options->eval && (options->eval_every > 0 || options->eval_steps != EVAL_STEPS))
    return fail(message, message_bytes, "--eval PATH is needed to evaluate");
  if (options->eval_steps == 0)
    return fail(message, message_bytes, "--eval-steps takes at least 1");
  if (options->min_lr > options->lr)
    return fail(message, message_bytes, "--min-lr %g is above --lr %g, from where it is to fall",
                options->min_lr, options->lr);
  return 0;
}

int bd_rt_options_parse(int argc, char **argv, int optimizer, bd_rt_options *out_options,
                        char *message, size_t message_bytes) {
  *out_options = (bd_rt_options){.steps = 10,
                                 .seed = 1,
                                 .lr = 3e-4,
                                 .min_lr = -1,
                                 .weight_decay = 0.1,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .eps = 1e-8,
                                 .momentum = 0.9,
                                 .clip = 1,
                                 .checkpoint_keep = KEPT,
                                 .eval_steps = EVAL_STEPS,
                                 .loss_scale_interval = -1};
  uint64_t given = 0;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      out_options->help = 1;
      return 0;
    }
    const int status = read_option(argc, argv, &i, &given, out_options, message, message_bytes);
    if (status) return status;
  }
  const int status = check_together(out_options, given, optimizer, message, message_bytes);
  if (status) return status;
  if (out_options->min_lr < 0) out_options->min_lr = out_options->lr;
  return 0;
}

int bd_rt_options_name_folder(const char *save) {
  return save[strlen(save) - 1] == '/';
}

double bd_rt_learning_rate(const bd_rt_options *options, int64_t step) {
  if (step < options->warmup)
    return options->lr * (double)(step + 1) / (double)(options->warmup + 1);
  if (options->steps <= options->warmup) return options->lr;
  const double ratio =
      (double)(step - options->warmup) / (double)(options->steps - options->warmup);
  return options->min_lr +
         0.5 * (1 + cos(3.14159265358979323846 * ratio)) * (options->lr - options->min_lr);
}
