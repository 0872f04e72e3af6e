// Bytes over the connections of a meeting.
#ifndef BD_RT_CUDA_MEET_WIRE_H
#define BD_RT_CUDA_MEET_WIRE_H
#include <stddef.h>
#include <stdint.h>

enum {
  BD_FRAME_HELLO = 1,
  BD_FRAME_WELCOME,
  BD_FRAME_REFUSED,
  BD_FRAME_DATA,
  BD_FRAME_END,
  BD_FRAME_SPEAK // answers END: and say why
};

// The head of all that is sent; `bytes` follow. Ranks have the same byte order.
typedef struct bd_frame {
  uint32_t magic, kind;
  uint32_t bytes;
  int32_t status; // BD_FRAME_END, BD_FRAME_SPEAK: with which the job ends
} bd_frame;
#define BD_FRAME_MAGIC UINT32_C(0x44527242)

typedef struct bd_hello { // what follows a HELLO
  uint64_t cookie;
  int32_t rank, ranks;
} bd_hello;

// The status with which a frame tells its receiver to end; 0: it tells no such thing.
int bd_wire_end_status(const bd_frame *frame);

double bd_wire_now(void); // seconds
// A listening socket, or -1 with errno. `here_only`: for this machine's processes.
int bd_wire_listen(int port, int here_only);
// A connection to host:port, or -1 when there is none yet; `out_unknown` is set when the host has
// no address.
int bd_wire_connect(const char *host, int port, int *out_unknown);
void bd_wire_prepare(int fd); // of an open connection
// All bytes until `deadline` (0: no limit). 1 when done.
int bd_wire_send(int fd, const void *data, size_t bytes, double deadline);
int bd_wire_receive(int fd, void *data, size_t bytes, double deadline);
// Reads to the end of what the other side sends, or until `deadline`; `out_last` is the last that
// came, zero where that is no whole frame. 1 when the end was reached.
int bd_wire_receive_last(int fd, bd_frame *out_last, double deadline);
int bd_wire_send_frame(int fd, uint32_t kind, int32_t status, const void *data, size_t bytes,
                       double deadline);
#endif
