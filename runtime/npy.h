// NumPy's arrays (.npy, versions 1 to 3 of the format): a strict reader of headers. Data is read by
// the caller where it lies in the file.
#ifndef BD_RT_NPY_H
#define BD_RT_NPY_H
#include "runtime/safetensors.h"

// Bytes of an element of the types that arrays may have here: floats of 2 to 8 bytes, integers,
// bools; 0 for others.
int64_t bd_rt_npy_bytes(int dtype);

// Opens a file and checks all that its header promises: row-major, little-endian, as many bytes as
// the shape has elements. `*out_tensor` has no name. 0, or a BD_RT_EXIT status with the reason in
// `message`; else the caller closes `*out_fd`.
int bd_rt_npy_open(const char *path, int *out_fd, bd_rt_tensor *out_tensor, char *message,
                   size_t message_bytes);
#endif
