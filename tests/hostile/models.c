// Hostile names in models: JSON graphs, modules as text, Hugging Face folders.
#include "ir/base/file.h"
#include "ir/base/text.h"
#include "tests/hostile/hostile.h"
#include "tests/support/tensor_names.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

// `path`: where the document is written; `model`: what is compiled.
static void compile_variants(bd_hostile *test, const bd_json *document, const char *path,
                             const char *model) {
  bd_hostile_write_json(test, path, document, 0, NULL, NULL);
  BD_RUN(test, BD_STATUS(0), "out", "compile", model, BD_CLUSTER, "--emit", "c", "-o", "out");
  bd_hostile_discard("out");
  bd_payload payloads[BD_PAYLOADS];
  bd_hostile_payloads(test->ctx, payloads);
  const bd_site *sites;
  const int count = bd_hostile_sites(test, document, &sites);
  for (int s = 0; s < count; s++)
    for (int p = 0; p < BD_PAYLOADS; p++) {
      test->place = bd_intern_f(test->ctx, "%s %s%s", path, sites[s].key < 0 ? "" : "key of ",
                                sites[s].place);
      test->kind = payloads[p].name;
      bd_hostile_write_json(test, path, document, 1, &sites[s], payloads[p].text);
      bd_hostile_compile(test, model);
    }
}

void bd_hostile_graphs(bd_hostile *test) {
  compile_variants(test, bd_hostile_read(test, "model.json"), "graph.json", "graph.json");
  bd_hostile_discard("graph.json");
}

// `whole` false: the first place only.
static const char *replaced(bd_hostile *test, const char *text, const char *old, const char *now,
                            bool whole) {
  bd_text out = bd_text_init(test->ctx->arena);
  const char *found = strstr(text, old);
  if (!found) bd_hostile_fail(test, "a name is not in the module's text", old);
  while (found) {
    bd_text_add_n(&out, text, (size_t)(found - text));
    bd_text_add(&out, now);
    text = found + strlen(old);
    found = whole ? strstr(text, old) : NULL;
  }
  bd_text_add(&out, text);
  return out.data;
}

static const char *quoted(bd_hostile *test, const char *text) {
  bd_text out = bd_text_init(test->ctx->arena);
  bd_text_add_json_string(&out, text);
  return out.data;
}

void bd_hostile_texts(bd_hostile *test) {
  BD_RUN(test, BD_STATUS(0), "good.braid", "compile", "model.json", "--emit", "graph", "-o",
         "good.braid");
  char *good;
  size_t bytes;
  if (bd_file_read(test->ctx, "good.braid", 1 << 20, &good, &bytes) != BD_OK)
    bd_hostile_fail(test, "the module cannot be read", "good.braid");
  bd_payload payloads[BD_PAYLOADS];
  bd_hostile_payloads(test->ctx, payloads);
  for (int p = 0; p < BD_PAYLOADS; p++) {
    const char *text = payloads[p].text;
    const char *bare = bd_intern_f(test->ctx, "\"%s\"", text);
    const struct {
      const char *place, *old, *now;
      bool whole;
    } changes[] = {
        {"module", "\"model\"", quoted(test, text), false},
        {"stored", "\"stored\"", quoted(test, text), true},
        {"raw module", "\"model\"", bare, false},
        {"function", "@f", bd_intern_f(test->ctx, "@%s", text), true},
        {"value", "%z", bd_intern_f(test->ctx, "%%%s", text), true},
        {"weight", "@w", bd_intern_f(test->ctx, "@%s", text), true},
    };
    test->kind = payloads[p].name;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
      test->place = bd_intern_f(test->ctx, "text of a %s", changes[i].place);
      bd_hostile_write(test, "model.braid",
                       replaced(test, good, changes[i].old, changes[i].now, changes[i].whole));
      bd_hostile_compile(test, "model.braid");
    }
  }
  bd_hostile_discard("good.braid");
  bd_hostile_discard("model.braid");
}

static void make_folder(bd_hostile *test, const char *name, const bd_json *config) {
  if (mkdir(name, 0700) != 0) bd_hostile_fail(test, "a folder cannot be made", strerror(errno));
  bd_hostile_write_json(test, bd_path_join(test->ctx, name, "config.json"), config, 0, NULL, NULL);
}

// The folder's own name becomes the model's.
static void compile_folder_name(bd_hostile *test, const char *text, const bd_json *config) {
  enum { LONGEST = 200 };
  bd_text name = bd_text_init(test->ctx->arena);
  bd_text_add_n(&name, text, strnlen(text, LONGEST));
  for (char *slash; (slash = strchr(name.data, '/'));)
    *slash = '_';
  if (name.length == 0) return;
  test->place = "a folder's name";
  make_folder(test, name.data, config);
  bd_hostile_compile(test, bd_intern_f(test->ctx, "./%s", name.data));
  bd_hostile_discard(name.data);
}

// `folder` holds config.json; `weights` are those of its model.
static void compile_tensor_names(bd_hostile *test, const char *text, const char *weights) {
  test->place = "a tensor";
  if (bd_tensor_names_change(test->ctx, weights, "folder/model.safetensors", "wte.weight", 1,
                             &text) != BD_OK)
    bd_hostile_fail(test, "weights cannot be renamed", weights);
  bd_hostile_compile(test, "folder");
  bd_hostile_discard("folder/model.safetensors");
  const char *name = quoted(test, text);
  const char *const indices[] = {
      bd_intern_f(test->ctx, "{\"weight_map\": {\"wte.weight\": %s}}", name),
      bd_intern_f(test->ctx, "{\"weight_map\": {%s: \"model-1.safetensors\"}}", name),
      bd_intern_f(test->ctx, "{\"weight_map\": {}, %s: %s}", name, name),
  };
  for (size_t i = 0; i < sizeof indices / sizeof *indices; i++) {
    test->place = bd_intern_f(test->ctx, "an index of shards (%zu)", i);
    bd_hostile_write(test, "folder/model.safetensors.index.json", indices[i]);
    bd_hostile_compile(test, "folder");
    bd_hostile_discard("folder/model.safetensors.index.json");
  }
}

void bd_hostile_configs(bd_hostile *test) {
  static const char *const configs[] = {"gpt2.json", "llama.json"};
  for (int i = 0; i < 2; i++) {
    const bd_json *config = bd_hostile_read(test, configs[i]);
    make_folder(test, "folder", config);
    compile_variants(test, config, "folder/config.json", "folder");
    bd_hostile_discard("folder");
  }
  const bd_json *config = bd_hostile_read(test, "gpt2.json");
  const char *weights = bd_path_join(test->ctx, test->root, "weights.safetensors");
  make_folder(test, "folder", config);
  BD_RUN(test, BD_STATUS(0), NULL, "init", "folder", "-o", weights);
  bd_payload payloads[BD_PAYLOADS];
  bd_hostile_payloads(test->ctx, payloads);
  for (int p = 0; p < BD_PAYLOADS; p++) {
    test->kind = payloads[p].name;
    compile_folder_name(test, payloads[p].text, config);
    compile_tensor_names(test, payloads[p].text, weights);
  }
  bd_hostile_discard("folder");
}
