// Device meshes, and how a value lies on one.
#ifndef BD_IR_MESH_H
#define BD_IR_MESH_H
#include "ir/type.h"

#define BD_MAX_AXES 4
#define BD_MAX_DEVICES 65536 // of a mesh, and of a cluster

// The devices of one stage as a grid; axis 0 varies slowest. Rank of coordinates c:
// ((c[0]*size[1] + c[1])*size[2] + ...). The last axes are the nearest neighbours.
typedef struct bd_mesh {
  int axes;
  int size[BD_MAX_AXES];
} bd_mesh;

int bd_mesh_devices(const bd_mesh *mesh);
// Whether two meshes have as many axes, of the same sizes.
bool bd_mesh_same(const bd_mesh *a, const bd_mesh *b);
// "2x4": at most BD_MAX_AXES sizes and BD_MAX_DEVICES devices. False: it is not that.
bool bd_mesh_parse(const char *text, bd_mesh *out_mesh);
// The same the other way: "2x4". A mesh of no axes is "".
const char *bd_mesh_words(bd_ctx *ctx, const bd_mesh *mesh);
void bd_mesh_coords(const bd_mesh *mesh, int rank, int out_coords[BD_MAX_AXES]);

// Per mesh axis: the tensor dimension that the axis splits (>= 0), or one of these.
enum {
  BD_REPLICATED = -1,
  BD_PARTIAL_SUM = -2, // the value is the sum over the axis of what the ranks hold
  BD_PARTIAL_MAX = -3,
  BD_PARTIAL_LSE = -4, // ... the log of the summed exponentials
};

typedef struct bd_sharding {
  int8_t at[BD_MAX_AXES];
} bd_sharding;

bd_sharding bd_sharding_replicated(void);
bool bd_sharding_equal(const bd_sharding *a, const bd_sharding *b);
bool bd_sharding_has_partial(const bd_sharding *sharding);
// The same for values of a type: axes that split further dimensions leave them whole, and so do
// those of a dimension, not the batch, that their parts do not divide.
bd_sharding bd_sharding_for_type(const bd_sharding *sharding, const bd_mesh *mesh,
                                 const bd_type *type);

// How many parts dimension `dim` is cut into: the product of the sizes of the axes that split it.
int bd_sharding_parts(const bd_mesh *mesh, const bd_sharding *sharding, int dim);

// Extent of a part, padding included: ceil(extent / parts). Every rank's buffer has this extent.
int64_t bd_local_extent(const bd_mesh *mesh, const bd_sharding *sharding, int dim, int64_t extent);

// Whether each of so many parts of an extent has an element.
bool bd_parts_are_filled(int64_t extent, int64_t parts);

// First logical element and number of valid ones of the part that `rank` holds of dimension `dim`.
// When several axes split one dimension, the lower axis number is the slower index.
void bd_local_range(const bd_mesh *mesh, const bd_sharding *sharding, int dim, int64_t extent,
                    int rank, int64_t *out_start, int64_t *out_count);

// The padded local type at `batch`: no symbolic extent remains.
bd_type bd_local_type(const bd_mesh *mesh, const bd_sharding *sharding, const bd_type *type,
                      int64_t batch);
// Its elements.
int64_t bd_local_elements(const bd_mesh *mesh, const bd_sharding *sharding, const bd_type *type,
                          int64_t batch);
#endif
