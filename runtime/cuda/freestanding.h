// What device code takes of C's headers. NVRTC brings none of these, and knows size_t, memcpy and
// the functions of math.h by itself; it reads this file first and finds theirs empty.
#ifndef BD_RT_CUDA_FREESTANDING_H
#define BD_RT_CUDA_FREESTANDING_H
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t, uintptr_t;
static_assert(sizeof(int64_t) == 8 && sizeof(uintptr_t) == 8, "as on the host");

#define INT32_MAX 0x7FFFFFFF
#define UINT32_MAX 0xFFFFFFFFu
#define INFINITY __int_as_float(0x7F800000)
#ifndef NULL
#define NULL nullptr
#endif
#endif
