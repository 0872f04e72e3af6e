// What no plan of a setting can beat.
#ifndef BD_PLANNER_BOUND_BOUND_H
#define BD_PLANNER_BOUND_BOUND_H
#include "planner/assemble.h"
#include "planner/bound/links.h"
#include "planner/layer/holding.h"
#include "planner/layer/sketch.h"
#include "planner/space.h"

// What all settings of a search share.
typedef struct bd_scene {
  const bd_module *train;
  const bd_cluster *cluster;
  const bd_plan_request *request;
  const bd_model_runs *runs;
  int64_t sequence;
  int64_t cap_bytes; // of a rank
  // The cap less what every rank of a GPU program holds.
  int64_t layers_cap_bytes;
} bd_scene;

// The schedule that plans of the search have: 1f1b where none is asked for. GPipe holds more and is
// no faster.
bd_schedule bd_scene_schedule(const bd_scene *scene);

// Micro-batches of a step, of so many samples each.
int bd_scene_micro_batches(const bd_scene *scene, int64_t micro_batch);

// Layers of a run and of those like it.
int bd_scene_calls_like(const bd_scene *scene, int run);

// The functions of a scene's runs, read once for all settings.
typedef struct bd_scene_work bd_scene_work;

// `scene` outlives it; it lives in ctx->arena.
BD_NODISCARD bd_status bd_scene_read_work(bd_ctx *ctx, const bd_scene *scene,
                                          bd_scene_work **out_work);

// From the op table alone: the work of every op divided evenly over all ranks, for every setting of
// as many stages and micro-batches of this size; with what bd_bound_shortage tells. `ctx`: that of
// bd_scene_read_work.
double bd_bound_work(bd_ctx *ctx, const bd_scene_work *work, int stages, int64_t micro_batch);

// Of a layer of a run, without forms of activations.
bd_layer_request bd_setting_request(const bd_scene *scene, const bd_setting *setting, int run);

// Whether the setting's mesh has three axes: these are dear and seldom much better.
bool bd_setting_is_fine(const bd_setting *setting);

// The layers of a setting, each ready to be priced, or sketched.
typedef struct bd_setting_layers {
  int form_count;
  bd_sharding *forms;
  bd_layer_request *requests; // per run
  bd_layer **layers;          // per run; NULL: they are sketched alone
  bd_layer_sketch **sketches; // per run; NULL: they are open alone
  const bd_links *links;      // between open layers; NULL: there are none
} bd_setting_layers;

// The setting with every form of tied weights that constraints allow, in ctx->arena; how many.
int bd_setting_tied_forms(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                          bd_setting **out_settings);

// `share_tied` NULL, or the layers of a setting that differs only in its tied form: runs without
// tied weights are taken from there. Lives in ctx->arena.
BD_NODISCARD bd_status bd_setting_open(bd_ctx *ctx, const bd_scene *scene,
                                       const bd_setting *setting,
                                       const bd_setting_layers *share_tied,
                                       bd_setting_layers *out_layers);
// The same, with the end of a step divided among so many passes, 0: without it.
BD_NODISCARD bd_status bd_setting_open_among(bd_ctx *ctx, const bd_scene *scene,
                                             const bd_setting *setting, int passes,
                                             const bd_setting_layers *share_tied,
                                             bd_setting_layers *out_layers);
BD_NODISCARD bd_status bd_setting_sketch(bd_ctx *ctx, const bd_scene *scene,
                                         const bd_setting *setting,
                                         const bd_setting_layers *share_tied,
                                         bd_setting_layers *out_layers);

// The links of a setting's forms, those of `share_tied` where it has some.
const bd_links *bd_setting_links_of(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                                    const bd_setting_layers *share_tied,
                                    const bd_setting_layers *own);

// Seconds of running ops again, in the layers of a micro-batch together, until all of them have
// room on so many stages: what they take at least beside what they do when everything is kept.
// Where they have no room whatever is kept, those of all ops that may be run again. `layers`: per
// run, on a stage's devices.
double bd_bound_shortage(bd_ctx *ctx, const bd_scene *scene, int stages,
                         const bd_layer_holding *const *layers);

// Of a byte, in seconds of a micro-batch, under which the layers come to the cap; 0: there is room,
// or none is known.
typedef struct bd_byte_price {
  double seconds;
  bool near; // another one beside it was found to be too low, or too high
} bd_byte_price;

// A setting with its tied form, and what no plan of it can beat.
typedef struct bd_bounded {
  bd_setting setting;
  // INFINITY: no plan of it fits the cap, or a form cannot be met.
  double seconds;
  double bytes; // of its fullest stage, at least; INFINITY: a form cannot be met
  bd_byte_price price;
  bool tight; // bd_bound_room would find no more
  // The layers and messages of a micro-batch take no less, whatever they hold; with the part of
  // synchronization that falls to it.
  double free_seconds;
} bd_bounded;

// Opens the layers of settings that differ in their tied form alone, as sketches of them, but for
// options with which no plan beats `cutoff`, which is finite, unless other layers make up for it
// (bd_layer_open_below). `share_tied` NULL, or the layers of another one that were opened so, whose
// cutoff holds for the runs that are taken from there. `out_layers`, per setting: without layers
// where no plan beats the cutoff whatever they are, and what that tells is filled in `bounded`.
BD_NODISCARD bd_status bd_setting_open_below(bd_ctx *ctx, const bd_scene *scene, double cutoff,
                                             const bd_setting_layers *share_tied, int count,
                                             bd_bounded *bounded, bd_setting_layers *out_layers);

// From ops on the setting's mesh, each split as suits it best: nearly what its layers give where
// gradients and partial sums are most of what is communicated, and much cheaper. For every tied
// form that constraints allow; what is `cutoff` or more is not looked for further. `out->seconds`
// and `out->free_seconds` alone are filled in; 0: no form can be met, as is found out where layers
// are open.
BD_NODISCARD bd_status bd_bound_apart(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                                      double cutoff, bd_bounded *out);

// The layers of a micro-batch, their ops apart.
typedef struct bd_apart_layers {
  double seconds, again_seconds; // whatever they hold; bd_bound_shortage
} bd_apart_layers;

// Of sketched layers, whose ops it weighs one kind of layer after another until both together are
// `enough` seconds, or all are weighed.
bd_apart_layers bd_bound_apart_layers(bd_ctx *ctx, const bd_scene *scene, int stages,
                                      const bd_setting_layers *sketched, double enough);

// From sketches of the layers (planner/layer/sketch.h), for every tied form that constraints allow:
// much of what the layers tell of a setting that cannot beat `cutoff`, which is finite, in less
// time. Nothing is looked for that is beyond the cutoff by more than a thousandth. `out->seconds`,
// `out->free_seconds` and `out->price` alone are filled in; 0: no form can be met, as is found out
// where layers are open.
BD_NODISCARD bd_status bd_bound_sketch(bd_ctx *ctx, const bd_scene *scene,
                                       const bd_setting *setting, double cutoff, bd_bounded *out);

// From the layer problems and sums of their bytes. A bound of `cutoff` seconds or more is not
// looked for further. `out->setting` is given, and `out->price` a first guess of it.
void bd_bound_layers(bd_ctx *ctx, const bd_scene *scene, const bd_setting_layers *layers,
                     double cutoff, bd_bounded *out);

// What no plan beats whose micro-batch is a part of that of a bounded setting, with its stages and
// mesh: seconds of ops and messages grow no faster than the samples, and splits that a part allows
// the whole allows as well.
double bd_bound_part(const bd_scene *scene, const bd_bounded *whole, int64_t micro_batch);

// Tighter and dearer: with workspaces, and within the cap of every stage. What bd_bound_layers
// found is given, for settings that differ in their tied form alone, the least bound first. Once
// one of them is bounded the others are only bounded as far. With `cutoff` 0 seconds stay what they
// are where a plan may fit: bytes alone are looked for, and whether there is room.
void bd_bound_room(bd_ctx *ctx, const bd_scene *scene, int count, const bd_setting_layers *layers,
                   double cutoff, bd_bounded *bounded);

// Seconds of a micro-batch that sending and receiving between neighbouring stages take at least,
// whichever form the messages have: one forward and one backward over every link.
typedef struct bd_moves {
  double of_stage[BD_MAX_STAGES]; // of the setting's
  double sum;
  double whole; // to receive the value, or its gradient, where every rank gets all of it
} bd_moves;

bd_moves bd_bound_moves(const bd_scene *scene, const bd_setting *setting,
                        const bd_setting_layers *layers);

// What messages take on both stages where layer `layer` is the last of stage `stage`, beside what
// bd_bound_moves tells.
typedef struct bd_cut_moves {
  double left, right; // on that stage, and on the next
} bd_cut_moves;

bd_cut_moves bd_bound_cut_moves(const bd_scene *scene, const bd_setting *setting,
                                const bd_setting_layers *layers, int stage, int layer);

// The links between neighbouring stages.
typedef struct bd_stage_links {
  int count;        // that differ; 1 for a single stage
  const int *of;    // per stage but the last: that to the next, among them
  const int *stage; // per link: a stage that it leads from
} bd_stage_links;

bd_stage_links bd_setting_links(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting);

// Seconds and bytes to hand on what a run's layers make, forward and backward: one result of its
// function, or with `result` -1 all. Tables as in bd_pipeline_run, over `forms` and the links.
void bd_setting_hand_on(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting, int run,
                        int result, const bd_stage_links *links, int form_count,
                        const bd_sharding *forms, bd_pipeline_run *out);
#endif
