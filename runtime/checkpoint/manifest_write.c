#include "runtime/checkpoint/manifest.h"
#include "runtime/half.h"
#include "runtime/json.h"
#include "runtime/tie.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static void write_list(FILE *out, const char *name, int count, const int64_t *numbers) {
  fprintf(out, "\"%s\": [", name);
  for (int i = 0; i < count; i++)
    fprintf(out, "%s%lld", i ? ", " : "", (long long)numbers[i]);
  fputs("]", out);
}

static void write_run(const bd_rt *rt, FILE *out) {
  const bd_rt_program *const p = rt->program;
  int64_t mesh[BD_RT_MAX_AXES];
  for (int a = 0; a < p->axes; a++)
    mesh[a] = p->mesh[a];
  fprintf(out, "{\n  \"format\": %d,\n  \"model\": ", BD_RT_MANIFEST_FORMAT);
  bd_rt_json_write(out, p->model);
  fprintf(out,
          ",\n  \"step\": %lld, \"updates\": %lld, \"seed\": \"%llx\",\n"
          "  \"loss_scale_bits\": %lu, \"finite_steps\": %lld, \"data_count\": %lld,\n"
          "  \"global_batch\": %lld, \"sequence\": %lld, \"optimizer\": %d,\n"
          "  \"stages\": %d, ",
          (long long)rt->step, (long long)rt->updates, (unsigned long long)rt->options.seed,
          (unsigned long)bd_rt_bits_of(rt->loss_scale), (long long)rt->finite_steps,
          (long long)rt->data.count, (long long)p->global_batch, (long long)p->sequence,
          p->optimizer, p->stages);
  write_list(out, "mesh", p->axes, mesh);
  fprintf(out, ", \"zero_axes\": %lu", (unsigned long)p->zero_axes);
}

// Dimensions are numbered from 1; 0: the axis cuts none.
static void write_weight(const bd_rt_program *p, const bd_rt_weight *weight, int stage, FILE *out) {
  int64_t at[BD_RT_MAX_AXES];
  for (int a = 0; a < p->axes; a++)
    at[a] = weight->layout.at[a] + 1;
  fprintf(out, "    {\"number\": %d, \"name\": ", weight->global_index);
  bd_rt_json_write(out, weight->stored_name);
  fprintf(out, ", \"stage\": %d, \"dtype\": %d, ", stage, weight->layout.dtype);
  write_list(out, "dims", weight->layout.rank, weight->layout.dims);
  fputs(", ", out);
  write_list(out, "at", p->axes, at);
  fprintf(out,
          ", \"cut_axis\": %d, \"cut_dim\": %d, \"rounded\": %d, \"trained\": %d, "
          "\"factor_dim\": %d}",
          weight->cut_axis, weight->cut_dim, weight->rounded,
          weight->gradient_count > 0 && !(weight->average > 0), weight->factor_dim);
}

static int by_number(const void *a, const void *b) {
  const bd_rt_weight *const *const x = a, *const *const y = b;
  return ((*x)->global_index > (*y)->global_index) - ((*x)->global_index < (*y)->global_index);
}

// Every weight of the model once, as its lowest stage holds it.
static int write_weights(const bd_rt *rt, FILE *out) {
  const bd_rt_program *const p = rt->program;
  size_t all = 0, count = 0;
  for (int s = 0; s < p->stages; s++)
    all += (size_t)p->stage[s].weight_count;
  const bd_rt_weight **const weights = malloc((all ? all : 1) * sizeof *weights);
  if (!weights) return 0;
  for (int s = 0; s < p->stages; s++)
    for (int i = 0; i < p->stage[s].weight_count; i++)
      if (bd_rt_first_holder(rt, p->stage[s].weights[i].global_index) == s)
        weights[count++] = &p->stage[s].weights[i];
  qsort(weights, count, sizeof *weights, by_number);
  fputs(",\n  \"weights\": [", out);
  for (size_t i = 0; i < count; i++) {
    fputs(i ? ",\n" : "\n", out);
    write_weight(p, weights[i], bd_rt_first_holder(rt, weights[i]->global_index), out);
  }
  free(weights);
  fputs("\n  ]", out);
  return 1;
}

int bd_rt_manifest_write(const bd_rt *rt, const char *path, const bd_rt_seal *seals) {
  FILE *const out = fopen(path, "w");
  if (!out) return errno;
  write_run(rt, out);
  int error = write_weights(rt, out) ? 0 : ENOMEM;
  fputs(",\n  \"files\": [", out);
  for (int r = 0; r < rt->ranks; r++)
    fprintf(out, "%s\n    {\"bytes\": %lld, \"digest\": \"%016llx\"}", r ? "," : "",
            (long long)seals[r].bytes, (unsigned long long)seals[r].digest);
  fputs("\n  ]\n}\n", out);
  if (!error && (fflush(out) || ferror(out) || fsync(fileno(out)))) error = errno ? errno : EIO;
  if (fclose(out) && !error) error = errno;
  return error;
}
