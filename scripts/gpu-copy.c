// Prints how many bytes a second a GPU reads and writes while it copies within its memory: the
// best of some copies of 1 GiB; or says why it cannot.
//   gpu-copy
#include <cuda_runtime_api.h>
#include <stdio.h>

enum { TURNS = 20 };

// The least milliseconds of a copy.
static cudaError_t measure(size_t bytes, float *out_millis) {
  cudaEvent_t start, end;
  char *from, *to;
  cudaError_t error;
  *out_millis = 0;
  if ((error = cudaMalloc((void **)&from, bytes)) || (error = cudaMalloc((void **)&to, bytes)) ||
      (error = cudaMemset(from, 1, bytes)) || (error = cudaEventCreate(&start)) ||
      (error = cudaEventCreate(&end)))
    return error;
  for (int turn = 0; turn < TURNS; turn++) {
    float millis = 0;
    if ((error = cudaEventRecord(start, NULL)) ||
        (error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, NULL)) ||
        (error = cudaEventRecord(end, NULL)) || (error = cudaEventSynchronize(end)) ||
        (error = cudaEventElapsedTime(&millis, start, end)))
      return error;
    if (turn == 0 || millis < *out_millis) *out_millis = millis;
  }
  return cudaSuccess;
}

int main(void) {
  const size_t bytes = (size_t)1 << 30;
  float millis;
  const cudaError_t error = measure(bytes, &millis);
  if (error) {
    fprintf(stderr, "gpu-copy: copying 1 GiB: %s\n", cudaGetErrorString(error));
    return 1;
  }
  printf("%.6g\n", 2e3 * (double)bytes / (double)millis);
  return 0;
}
