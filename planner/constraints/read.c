#include "planner/constraints/read.h"
#include "ir/base/number.h"
#include "ir/base/suggest.h"
#include <stdlib.h>
#include <string.h>

#define LARGEST ((int64_t)1 << 24)

// What is pinned or forbidden, by its name.
typedef enum key {
  KEY_DATA,
  KEY_SEQUENCE,
  KEY_TENSOR,
  KEY_STAGES,
  KEY_MICRO_BATCH,
  KEY_ZERO,
  KEY_RECOMPUTE,
  KEY_SCHEDULE,
  KEY_MESH,
  KEY_COUNT
} key;
static const char *const key_names[KEY_COUNT + 1] = {"dp",   "sp",        "tp",       "pp",   "mb",
                                                     "zero", "recompute", "schedule", "mesh", NULL};

// Of the degrees, in the order of their names.
static const bd_cut cuts[] = {BD_CUT_SAMPLES, BD_CUT_TOKENS, BD_CUT_FEATURES};

typedef struct item {
  key key;
  char relation; // '=', '<', '>', or 0 when nothing follows the name
  const char *words, *value;
} item;

static bd_status read_item(bd_ctx *ctx, const char *text, size_t length, item *out) {
  out->words = bd_intern(ctx, text, length);
  size_t name = strcspn(out->words, "=<>");
  out->relation = out->words[name];
  out->value = out->words + name + (out->relation != 0);
  if (strchr("=<>", *out->value) && *out->value)
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                   "'%s' has a relation that is not known; known are =, < and >", out->words);
  const char *word = bd_intern(ctx, out->words, name);
  for (out->key = 0; out->key < KEY_COUNT; out->key++)
    if (strcmp(word, key_names[out->key]) == 0) return BD_OK;
  const char *near = bd_suggest(word, key_names);
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "'%s' names nothing of a plan%s%s%s; known are %s",
                 out->words, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
                 BD_PIN_WORDS);
}

static bd_status read_number(bd_ctx *ctx, const item *from, int64_t least, int64_t most,
                             int64_t *out) {
  int64_t value;
  if (!bd_whole_read(from->value, &value) || value < least || value > most)
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "'%s' wants a whole number from %lld to %lld",
                   from->words, (long long)least, (long long)most);
  *out = value;
  return BD_OK;
}

// Saying something twice is no harm, saying two things is. `pinned`: in words.
static bd_status contradicts(bd_ctx *ctx, const item *from, const char *pinned) {
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                 "'%s' contradicts %s, which is asked for as well; leave one of them out",
                 from->words, pinned);
}

static bd_status read_word(bd_ctx *ctx, const item *from, const char *const *words, int *out) {
  const char *list = words[0];
  int value = -1;
  for (int i = 0; words[i]; i++) {
    if (i) list = bd_intern_f(ctx, "%s, %s", list, words[i]);
    if (strcmp(from->value, words[i]) == 0) value = i;
  }
  if (value < 0)
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "'%s' wants one of %s", from->words, list);
  if (*out >= 0 && *out != value)
    return contradicts(ctx, from, bd_intern_f(ctx, "%s=%s", key_names[from->key], words[*out]));
  *out = value;
  return BD_OK;
}

static const char *mesh_words(bd_ctx *ctx, const bd_mesh *mesh) {
  return bd_intern_f(ctx, "mesh=%s", bd_mesh_words(ctx, mesh));
}

// A mesh and a degree need not contradict each other, but only one of them is to say what the mesh
// is.
static bd_status both_make_meshes(bd_ctx *ctx, const item *from, const char *other) {
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                 "'%s' makes up the mesh, and so does %s, which is asked for as well; leave one of "
                 "them out",
                 from->words, other);
}

static bd_status pin_number(bd_ctx *ctx, const item *from, bd_plan_request *request,
                            bd_constraints *constraints) {
  int64_t value;
  if (from->key == KEY_STAGES) {
    BD_TRY(read_number(ctx, from, 1, BD_MAX_STAGES, &value));
    if (request->stages && request->stages != value)
      return contradicts(ctx, from, bd_intern_f(ctx, "pp=%d", request->stages));
    request->stages = (int)value;
  } else if (from->key == KEY_MICRO_BATCH) {
    BD_TRY(read_number(ctx, from, 1, LARGEST, &value));
    if (request->micro_batch && request->micro_batch != value)
      return contradicts(ctx, from, bd_intern_f(ctx, "mb=%lld", (long long)request->micro_batch));
    request->micro_batch = value;
  } else {
    BD_TRY(read_number(ctx, from, 1, 1 << 20, &value));
    int *degree = &constraints->degree[cuts[from->key]];
    if (*degree && *degree != value)
      return contradicts(ctx, from, bd_intern_f(ctx, "%s=%d", key_names[from->key], *degree));
    if (request->mesh.axes) return both_make_meshes(ctx, from, mesh_words(ctx, &request->mesh));
    *degree = (int)value;
  }
  return BD_OK;
}

static const char *degree_words(bd_ctx *ctx, const bd_constraints *constraints) {
  const char *words = "";
  for (int k = KEY_DATA; k <= KEY_TENSOR; k++)
    if (constraints->degree[cuts[k]])
      words = bd_intern_f(ctx, "%s%s%s=%d", words, *words ? "," : "", key_names[k],
                          constraints->degree[cuts[k]]);
  return words;
}

static bd_status pin_mesh(bd_ctx *ctx, const item *from, bd_plan_request *request,
                          const bd_constraints *constraints) {
  bd_mesh mesh;
  if (!bd_mesh_parse(from->value, &mesh))
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "'%s' wants sizes such as 2x4 (at most %d axes)",
                   from->words, BD_MAX_AXES);
  if (bd_constraints_have_degrees(constraints))
    return both_make_meshes(ctx, from, degree_words(ctx, constraints));
  if (request->mesh.axes && !bd_mesh_same(&mesh, &request->mesh))
    return contradicts(ctx, from, mesh_words(ctx, &request->mesh));
  request->mesh = mesh;
  return BD_OK;
}

static bd_status add_pin(bd_ctx *ctx, const item *from, bd_plan_request *request,
                         bd_constraints *constraints) {
  static const char *const recompute[] = {"none", "full", NULL};
  const char *schedules[BD_SCHEDULE_COUNT + 1] = {0};
  int64_t zero;
  if (from->relation != '=')
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "'%s' pins nothing; write NAME=VALUE", from->words);
  switch (from->key) {
  case KEY_RECOMPUTE:
    return read_word(ctx, from, recompute, &request->recompute);
  case KEY_SCHEDULE:
    for (int i = 0; i < BD_SCHEDULE_COUNT; i++)
      schedules[i] = bd_schedule_name((bd_schedule)i);
    return read_word(ctx, from, schedules, &request->schedule);
  case KEY_ZERO:
    BD_TRY(read_number(ctx, from, 0, BD_MAX_ZERO, &zero));
    if (request->zero >= 0 && request->zero != zero)
      return contradicts(ctx, from, bd_intern_f(ctx, "zero=%d", request->zero));
    request->zero = (int)zero;
    return BD_OK;
  case KEY_MESH:
    return pin_mesh(ctx, from, request, constraints);
  default:
    return pin_number(ctx, from, request, constraints);
  }
}

// Of recompute and zero without a value: nothing of it.
static bd_status forbid_all(bd_ctx *ctx, const item *from, const char *pinned, int *pin) {
  if (*pin > 0) return contradicts(ctx, from, pinned);
  *pin = 0;
  return BD_OK;
}

// All kept and nothing kept are the ends of a choice that is made for every value: a plan that only
// keeps away from an end differs from it by the smallest value that there is.
static bd_status refuse_part(bd_ctx *ctx, const item *from) {
  bool none = from->relation == '=' && strcmp(from->value, "none") == 0;
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                 "'%s' cannot be forbidden, as one small value more or less would do; %s, and a "
                 "partial plan says it of single values",
                 from->words,
                 none ? "pin recompute=full for nothing to be kept"
                      : "'recompute' alone forbids that anything runs again");
}

static bd_status add_forbid(bd_ctx *ctx, const item *from, bd_plan_request *request,
                            bd_constraints *c) {
  static const int what[] = {BD_CUT_SAMPLES,   BD_CUT_TOKENS,         BD_CUT_FEATURES,
                             BD_FORBID_STAGES, BD_FORBID_MICRO_BATCH, BD_FORBID_ZERO};
  int64_t value;
  if (!from->relation && from->key == KEY_RECOMPUTE)
    return forbid_all(ctx, from, "recompute=full", &request->recompute);
  if (!from->relation && from->key == KEY_ZERO)
    return forbid_all(ctx, from, bd_intern_f(ctx, "zero=%d", request->zero), &request->zero);
  if (from->key == KEY_RECOMPUTE) return refuse_part(ctx, from);
  if (from->key > KEY_RECOMPUTE)
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "'%s' cannot be forbidden, only pinned",
                   from->words);
  if (!from->relation)
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "'%s' forbids nothing; write NAME=VALUE",
                   from->words);
  bool degree = from->key <= KEY_TENSOR;
  if (degree && from->relation == '<')
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                   "'%s' cannot be forbidden, as some ops are not cut so in any plan; pin %s, or "
                   "forbid single degrees",
                   from->words, key_names[from->key]);
  int least = degree && from->relation == '=' ? 2 : from->key == KEY_ZERO ? 0 : 1;
  BD_TRY(read_number(ctx, from, least, from->key == KEY_ZERO ? BD_MAX_ZERO : LARGEST, &value));
  bool beyond =
      (from->relation == '>' && value == BD_MAX_ZERO) || (from->relation == '<' && !value);
  if (from->key == KEY_ZERO && beyond)
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "'%s' forbids nothing: stages of ZeRO are 0 to %d",
                   from->words, BD_MAX_ZERO);
  if (c->forbid_count == c->forbid_capacity) {
    int wanted = c->forbid_capacity ? 2 * c->forbid_capacity : 8;
    c->forbids = bd_arena_grow(ctx->arena, c->forbids, (size_t)c->forbid_count, (size_t)wanted,
                               sizeof *c->forbids);
    c->forbid_capacity = wanted;
  }
  c->forbids[c->forbid_count++] = (bd_forbid){from->words, what[from->key], from->relation, value};
  return BD_OK;
}

typedef bd_status (*add_item)(bd_ctx *ctx, const item *from, bd_plan_request *request,
                              bd_constraints *constraints);

static bd_status read_list(bd_ctx *ctx, const char *text, bd_plan_request *request,
                           bd_constraints *constraints, add_item add) {
  for (const char *at = text; *at || at == text;) {
    size_t length = strcspn(at, ",");
    item next;
    BD_TRY(read_item(ctx, at, length, &next));
    BD_TRY(add(ctx, &next, request, constraints));
    at += length;
    if (*at == ',' && !*++at) at = ","; // an empty name at the end is an error as well
  }
  request->constraints = constraints;
  return BD_OK;
}

// What is pinned of the kind that is forbidden; 0: nothing.
static int64_t pinned_of(const bd_plan_request *request, const bd_constraints *c, int what) {
  if (what < BD_CUT_COUNT) return c->degree[what];
  return what == BD_FORBID_STAGES        ? request->stages
         : what == BD_FORBID_MICRO_BATCH ? request->micro_batch
                                         : 0;
}

static bd_status check_pins(bd_ctx *ctx, const bd_plan_request *request, const bd_constraints *c) {
  for (int i = 0; i < c->forbid_count; i++) {
    int64_t pinned = pinned_of(request, c, c->forbids[i].what);
    if (pinned && bd_forbid_hits(&c->forbids[i], pinned))
      return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                     "'%s' forbids %lld, which is pinned as well; leave one of them out",
                     c->forbids[i].words, (long long)pinned);
  }
  return BD_OK;
}

bd_status bd_pins_read(bd_ctx *ctx, const char *text, bd_plan_request *request,
                       bd_constraints *constraints) {
  return read_list(ctx, text, request, constraints, add_pin);
}

bd_status bd_forbids_read(bd_ctx *ctx, const char *text, bd_plan_request *request,
                          bd_constraints *constraints) {
  BD_TRY(read_list(ctx, text, request, constraints, add_forbid));
  BD_TRY(check_pins(ctx, request, constraints));
  for (int stage = 0; stage <= BD_MAX_ZERO; stage++)
    if (bd_constraints_allow_zero(constraints, request->zero, stage)) return BD_OK;
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "'%s' leaves no stage of ZeRO%s", text,
                 request->zero < 0 ? "" : ", beside the one that is pinned");
}
