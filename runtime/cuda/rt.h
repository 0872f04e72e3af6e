// The state of one rank with a GPU.
//
// All that is used of CUDA:
//   cudaGetDeviceCount cudaSetDevice cudaDeviceGetAttribute cudaDeviceGetPCIBusId cudaMemGetInfo
//   cudaDriverGetVersion cudaRuntimeGetVersion cudaGetDeviceProperties cudaGetErrorString
//   cudaGetLastError
//   cudaMalloc cudaFree cudaMallocHost cudaFreeHost (pinned memory is also the device's: the loss
//   and the sums of squares are written there by kernels)
//   cudaMemcpyAsync cudaMemsetAsync cudaMemset2DAsync
//   cudaDeviceGetStreamPriorityRange cudaStreamCreateWithPriority cudaStreamQuery
//   cudaStreamWaitEvent cudaStreamDestroy
//   cudaEventCreateWithFlags cudaEventRecord cudaEventQuery cudaEventElapsedTime cudaEventDestroy
//   cudaStreamBeginCapture cudaStreamEndCapture cudaGraphInstantiate cudaGraphDestroy
//   cudaGraphLaunch cudaGraphExecDestroy
//   cudaLibraryLoadData cudaLibraryGetKernel cudaFuncGetAttributes
//   cudaOccupancyMaxActiveBlocksPerMultiprocessor cudaLaunchKernel cudaLibraryUnload
//   cudaGetDriverEntryPointByVersion (cuMemGetAddressRange cuMemGetAllocationGranularity)
// of cuBLASLt:
//   cublasLtCreate cublasLtDestroy cublasLtGetVersion cublasLtGetStatusString cublasLtMatmul
//   cublasLtMatmulAlgoGetHeuristic cublasLtMatmulAlgoCheck cublasLtMatmulAlgoConfigGetAttribute
//   (REDUCTION_SCHEME) cublasLtMatmulDescCreate/SetAttribute (TRANSA, TRANSB, A_SCALE_POINTER,
//   B_SCALE_POINTER, EPILOGUE, BIAS_POINTER, EPILOGUE_AUX_POINTER, EPILOGUE_AUX_LD)/Destroy
//   cublasLtMatrixLayoutCreate/SetAttribute (ROWS, COLS, BATCH_COUNT, STRIDED_BATCH_OFFSET)/Destroy
//   cublasLtMatmulPreferenceCreate/SetAttribute (MAX_WORKSPACE_BYTES, REDUCTION_SCHEME_MASK,
//   MIN_ALIGNMENT_{A,B,C,D}_BYTES)/Destroy
// of cuDNN, when it is there, what dnn_abi.h lists; loaded by name:
//   cudnnGetVersion cudnnGetErrorString cudnnGetLastErrorString cudnnCreate cudnnDestroy
//   cudnnSetStream cudnnBackendCreateDescriptor/DestroyDescriptor/SetAttribute/GetAttribute/
//   Finalize/Execute
// of NCCL, with nonblocking communicators (every call may return ncclInProgress):
//   ncclGetVersion ncclGetUniqueId ncclCommInitRankConfig ncclCommGetAsyncError ncclCommFinalize
//   ncclCommDestroy ncclGetErrorString ncclGetLastError ncclAllReduce ncclAllGather
//   ncclReduceScatter ncclSend ncclRecv ncclGroupStart ncclGroupEnd ncclMemAlloc ncclMemFree
//   ncclCommRegister ncclCommDeregister, and since 2.27 ncclCommWindowRegister
//   ncclCommWindowDeregister
#ifndef BD_RT_CUDA_RT_H
#define BD_RT_CUDA_RT_H
#include "runtime/backend.h"
#include "runtime/cuda/dnn.h"
#include "runtime/cuda/kernels.h"
#include "runtime/cuda/launcher.h"
#include "runtime/cuda/meet.h"
#include "runtime/cuda/segment.h"
#include "runtime/cuda/watchdog.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

typedef struct bd_cuda_product bd_cuda_product;           // a matrix product's chosen algorithm
typedef struct bd_cuda_sensors bd_cuda_sensors;           // of NVIDIA's management library
typedef struct bd_cuda_dnn_use bd_cuda_dnn_use;           // cuDNN, where it is used
typedef struct bd_cuda_attentions bd_cuda_attentions;     // what runs by it
typedef struct bd_cuda_convolved bd_cuda_convolved;       // and that
typedef struct bd_cuda_reader bd_cuda_reader;             // of samples
typedef struct bd_cuda_tuning bd_cuda_tuning;             // products that the rehearsal has noted
typedef struct bd_cuda_accumulators bd_cuda_accumulators; // of gradients
typedef struct bd_cuda_grouping bd_cuda_grouping;         // products of rows in groups

// What NCCL calls the arena: a symmetric window, a buffer, or NULL where it does without.
typedef struct bd_cuda_grant {
  void *window, *buffer;
} bd_cuda_grant;

// Where collectives run: the rank's own stream, or one beside it. What nothing waits for soon, sums
// of gradients and gathers of weights, has communicators of its own, because those of one
// communicator run one after another. A layer's collectives beside its own steps have those of the
// rank's stream, and wait for each other.
typedef struct bd_cuda_lane {
  cudaStream_t stream;
  ncclComm_t comm[BD_RT_GROUPS]; // by mask of the axes that have more than one rank
  bd_cuda_grant grant[BD_RT_GROUPS];
  uint32_t used_masks; // a bit per mask
} bd_cuda_lane;
enum { BD_CUDA_MAIN, BD_CUDA_ASIDE, BD_CUDA_BESIDE, BD_CUDA_STREAMS };

// Carries messages of one direction, one after another.
typedef struct bd_cuda_line {
  ncclUniqueId id;
  ncclComm_t comm; // sender is rank 0, receiver rank 1
  bd_cuda_grant grant;
  cudaStream_t stream; // of what is received the device's `receives`
  cudaEvent_t ready, done;
} bd_cuda_line;

// One direction between this rank and its like on another stage. It has as many lines as the sender
// keeps copies of what a pass sends, one for each stage that it goes on or back, and pass after
// pass takes them in turn: so nothing waits in a line for what its receiver does not want yet.
typedef struct bd_cuda_pipe {
  int used, in_passes; // in these: not only at a step's end
  uint64_t order;      // stands for all messages of a step in their order
  int first_tag;       // of those that are received in a pass
  int64_t passes;      // that it has begun in
  int line_count;
  bd_cuda_line *lines;
} bd_cuda_pipe;

// Where messages of one stage and tag wait for their receiver: as many as the stages that they go
// on or back, so that none wait for each other in a circle.
typedef struct bd_cuda_outgoing {
  int stage, tag;
  int copies;
  int64_t passes;        // that have sent one
  int64_t offset, bytes; // in the arena, of the first; of each
  cudaEvent_t *sent;     // of each
} bd_cuda_outgoing;

// A message that is to leave, and what tells that it has been received.
typedef struct bd_cuda_letter {
  int stage, tag;
  bd_cuda_line *line;
  const char *copy;
  int64_t bytes;
  cudaEvent_t sent;
} bd_cuda_letter;

enum {
  BD_CUDA_WORKSPACE_BYTES = 4 << 20,
  BD_CUDA_LEAST_LIBRARY_BYTES = 16 << 20,
  BD_CUDA_MOST_OUTGOING = 1024,
  BD_CUDA_MOST_RANGES = 8, // in each other
};

struct bd_rt_device {
  bd_launcher launcher;
  bd_meeting *meeting;
  bd_watchdog *watchdog;
  int index, processors; // the GPU's number on this machine, and its multiprocessors
  int capability;        // 10 * major + minor
  int ranks_here;        // on this machine
  uint32_t masks_here;   // a bit per mask of axes: the group lies on one machine, as NCCL sees it;
                         // 0 where ranks share GPUs
  int nccl_version;      // 10000 * major + 100 * minor + patch
  int keeps_order;       // NCCL and all drivers are to keep the order of communicators
  int nccl_gave_arena;   // else CUDA has
  bd_cuda_lane lanes[BD_CUDA_STREAMS];
  int lane; // that takes what is asked now
  // The lane's own. Work that is started at once comes by bd_cuda_now.
  cudaStream_t stream;
  bd_cuda_queue queue;
  bd_cuda_segments *segments;
  int in_group;               // calls of NCCL are gathered and start together
  int aside;                  // that lane has work without a slot that nobody has waited for
  int aside_slot;             // of what it is asked now, or BD_RT_NO_SLOT
  cudaEvent_t forked, joined; // between lanes
  cudaEvent_t prefetched[BD_RT_SLOTS];
  unsigned char prefetching[BD_RT_SLOTS]; // per slot: under way
  int beside_slot;                        // of the last collective of the lane BD_CUDA_BESIDE
  uint32_t beside_masks; // a bit per mask: its communicator has work there, up to that collective
  // The arena's library segment, for matrix products. Its first BD_CUDA_WORKSPACE_BYTES are what
  // bd_rt_workspace gives, the rest is everyone's between two calls: `room`.
  char *library, *room;
  int64_t library_bytes, room_bytes;
  bd_cuda_kept *kept;      // behind the room, BD_CUDA_MOST_KEPT
  cudaLibrary_t code;      // of the program
  cudaKernel_t *kernels;   // in it
  unsigned *kernel_blocks; // of each, for every multiprocessor
  cublasLtHandle_t blas;
  bd_cuda_product **products; // a hash table
  int product_count, product_slots;
  bd_cuda_tuning *tuning; // NULL but at the start, of several ranks or with --tune
  bd_cuda_accumulators *accumulators;
  bd_cuda_grouping *grouping;     // NULL: the stage has none
  bd_cuda_dnn_use *dnn;           // NULL: nothing has asked for it, or no rank uses it
  bd_cuda_attentions *attentions; // NULL: none
  bd_cuda_convolved *convolved;   // the first shape of convolutions, or NULL
  bd_cuda_pipe *to, *from;        // by stage
  cudaStream_t receives;          // of all lines from other stages; NULL: there are none
  int most_lines;                 // that any rank has, at least
  int outgoing_count;
  bd_cuda_outgoing outgoing[BD_CUDA_MOST_OUTGOING];
  int letter_count; // of a pass, that are to leave together
  bd_cuda_letter letters[BD_CUDA_MOST_OUTGOING];
  int64_t send_used;                            // bytes of the arena's send segment
  bd_cuda_reader *reader;                       // NULL: no samples are read here
  int range_depth, ranges[BD_CUDA_MOST_RANGES]; // of bd_rt_annotate
  cudaEvent_t *stamps;                          // BD_RT_STAMPS, while a run is profiled
  bd_cuda_sensors *sensors;                     // NULL: the library is not there
  float *mapped; // pinned, 4 * BD_RT_SCRATCH_FLOATS bytes: see bd_rt_map
  // While set, a step is only walked: nothing is done but noting which groups, pipes, messages and
  // samples it uses.
  int rehearsing;
};

// Ends the job unless a call succeeded.
void bd_cuda_check(cudaError_t error, const char *call);
void bd_cuda_check_blas(cublasStatus_t status, const char *call);
#define BD_CUDA(call) bd_cuda_check(call, #call)
#define BD_CUDA_BLAS(call) bd_cuda_check_blas(call, #call)

// The rank has met the others, who are to know when it ends early; NULL: it leaves them.
void bd_cuda_enter(const bd_rt *rt);
// Ends this rank because the meeting said so.
void bd_cuda_leave_early(const bd_rt *rt) __attribute__((noreturn));
// Ends the job because a call of NCCL, or what a communicator has done since, has failed; or
// because a rank has ended, where that turns out to be the reason.
void bd_cuda_fail_nccl(bd_rt *rt, ncclResult_t error, const char *call) __attribute__((noreturn));
// Ends this rank when another has ended or a communicator has failed.
void bd_cuda_watch(bd_rt *rt);

// Chooses the GPU; checks it, its driver, the device code and NCCL: 0, or a status with the reason
// and the remedy in `message`.
int bd_cuda_choose(bd_rt *rt, char *message, size_t message_bytes);
// Collective, after bd_cuda_choose: who shares a GPU or a machine, whether all have one NCCL, and
// whether that keeps the order of communicators. Returns 0 or a status that has been said.
int bd_cuda_compare(bd_rt *rt);
// The arena, host memory, streams and code. 0, or a status with the reason in `message`.
int bd_cuda_allocate(bd_rt *rt, char *message, size_t message_bytes);
void bd_cuda_release(bd_rt *rt);
// For work that `exchanges` something with other ranks: its few blocks get the first places that
// other kernels leave, and not those that are left when all blocks of these have begun.
void bd_cuda_open_stream(cudaStream_t *out_stream, int exchanges);
void bd_cuda_open_sensors(bd_rt *rt);
void bd_cuda_close_sensors(bd_rt *rt);

// Events for the messages that a rehearsal has found.
void bd_cuda_prepare_pipes(bd_rt *rt);
// Collective, before bd_cuda_connect: how many lines each direction has. Where the most that a rank
// would have are too many, every direction has one, and ranks whose messages go over stages run
// nothing beside.
void bd_cuda_agree_lines(bd_rt *rt);
// Collective for each line, by its id.
void bd_cuda_open_lines(bd_rt *rt, bd_cuda_pipe *pipe, int sends);
void bd_cuda_close_lines(bd_rt *rt, bd_cuda_pipe *pipe);
// Pinned memory for the samples that it has found. 0, or a status with the reason in `message`.
int bd_cuda_prepare_reader(bd_rt *rt, char *message, size_t message_bytes);
// Lets the reader go on where copies of samples have ended: for whoever waits for the device.
void bd_cuda_free_samples(bd_rt *rt);
void bd_cuda_release_reader(bd_rt *rt);
// Collective: the communicators that a rehearsal has found.
void bd_cuda_connect(bd_rt *rt);
void bd_cuda_disconnect(bd_rt *rt);
ncclComm_t bd_cuda_open_comm(bd_rt *rt, ncclUniqueId id, int ranks, int rank, ncclConfig_t config);
// NULL is nothing.
void bd_cuda_close_comm(bd_rt *rt, ncclComm_t *comm, bd_cuda_grant grant);
void bd_cuda_release_products(bd_rt *rt);

// The first rank of the group over `mask` that a rank belongs to.
int bd_cuda_first_of_group(const bd_rt *rt, int rank, int mask);

// Collective for the communicator: NCCL may use the arena where it lies, without copies into its
// own buffers; with `window` its kernels and copy engines reach the other ranks' arenas themselves.
bd_cuda_grant bd_cuda_grant_arena(bd_rt *rt, ncclComm_t comm, int window);
void bd_cuda_revoke_arena(bd_rt *rt, ncclComm_t comm, bd_cuda_grant grant);
// Whether the communicators of a group with this mask take the arena as a window: its ranks are on
// one machine, and NCCL knows windows. The same on all ranks of the group.
int bd_cuda_has_window(const bd_rt *rt, int mask);
// Has copy engines gather what lies in windows of so many ranks, where NCCL can, so that no
// multiprocessor does; but not where two may wait for each other for ever.
void bd_cuda_prefer_copy_engines(const bd_rt *rt, int ranks, ncclConfig_t *config);
// cuDNN for one of these uses, looked for when first asked for. NULL: it cannot be used. Only while
// rehearsing.
enum { BD_CUDA_DNN_ATTENTION = 1, BD_CUDA_DNN_CONVOLUTIONS = 2 };
bd_dnn *bd_cuda_dnn(bd_rt *rt, int use);
// Counts a shape that runs by it, or one that it does not take and why.
void bd_cuda_dnn_count(bd_rt *rt, const char *refused_why);
// For shapes that it takes in parts: the largest divisor of `whole` below `part`; 0: there is none.
int64_t bd_cuda_next_divisor(int64_t whole, int64_t part);
// Collective, after the rehearsal: cuDNN is used when all ranks that asked for it have the same;
// the first rank says which it is. Else plans are given up.
void bd_cuda_agree_dnn(bd_rt *rt);
void bd_cuda_release_dnn(bd_rt *rt);
void bd_cuda_release_attention(bd_rt *rt);
// After that and before there are communicators, of each plan: among several ranks runs it once, as
// a library loads its code when it is first wanted; and learns what the library's attention does by
// itself. Overwrites the arena.
void bd_cuda_try_attention(bd_rt *rt);
void bd_cuda_try_convolutions(bd_rt *rt);
void bd_cuda_release_convolutions(bd_rt *rt);

// Waits for all that a stream has been asked, while the end of another rank ends the wait.
void bd_cuda_settle(bd_rt *rt, cudaStream_t stream);
// Between two looks, of which the first is turn 1, at what this thread waits for: lets the reader
// go on, watches the other ranks now and then, and leaves the core to others, at length when it
// takes long.
void bd_cuda_rest(bd_rt *rt, int64_t turn);
// What NCCL's calls return, made final: waits while a call is in progress on `comm`.
void bd_cuda_finish(bd_rt *rt, ncclComm_t comm, ncclResult_t result, const char *call);
#define BD_NCCL(rt, comm, call) bd_cuda_finish(rt, comm, call, #call)
// Ends the job unless a call succeeded or is in progress.
void bd_cuda_accept(bd_rt *rt, ncclResult_t result, const char *call);
// The rank's own stream waits for all of the lane BD_CUDA_BESIDE.
void bd_cuda_await_beside(bd_rt *rt);
// What is asked from here on runs on this lane.
void bd_cuda_take_lane(bd_rt_device *device, int lane);
// The communicator of a group with more than one rank, on the lane of now, which waits for what
// another lane does by it. NULL while rehearsing.
ncclComm_t bd_cuda_comm(bd_rt *rt, const bd_rt_group *group);
#endif
