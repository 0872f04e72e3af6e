// Which mesh axes split a loop, read off how an op's operands and results lie.
#include "ir/index.h"

// Of the dimensions that a loop's number stands for: those that it shares with an inner loop, or
// the others.
static unsigned axes_of(const bd_index_map *map, const bd_module *module,
                        const bd_function *function, const bd_op *op, int loop, unsigned in,
                        unsigned out) {
  const bd_mesh *mesh = &module->mesh;
  unsigned axes = 0;
  for (int i = 0; i < op->in_count + op->out_count; ++i) {
    bool made = i >= op->in_count;
    int at = made ? i - op->in_count : i;
    const bd_value *value = &function->values[made ? op->out[at] : op->in[at]];
    if (!((made ? out : in) >> at & 1u)) continue;
    for (int axis = 0; axis < mesh->axes; ++axis) {
      int dim = value->sharding.at[axis];
      if (mesh->size[axis] > 1 && dim >= 0 && dim < value->type.rank &&
          (made ? map->out : map->in)[at][dim] == loop)
        axes |= 1u << axis;
    }
  }
  return axes;
}

unsigned bd_loop_axes(const bd_index_map *map, const bd_module *module, const bd_function *function,
                      const bd_op *op, int loop) {
  const bd_loop *own = &map->loop[loop];
  if (own->within >= 0)
    return axes_of(map, module, function, op, own->within, own->inner_in, own->inner_out) &
           ~bd_loop_axes(map, module, function, op, own->within);
  unsigned in = ~0u, out = ~0u;
  for (int i = 0; i < map->loops; ++i)
    if (map->loop[i].within == loop) in &= ~map->loop[i].inner_in, out &= ~map->loop[i].inner_out;
  return axes_of(map, module, function, op, loop, in, out);
}
