#include "runtime/cuda/launcher.h"

#include "runtime/braid_rt_abi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 1 << 20, DEFAULT_PORT = 29500, FIRST_JOB_PORT = 20000, JOB_PORTS = 12000 };

// Names of a launcher's variables; NULL where it has none.
typedef struct names {
  const char *name, *rank, *ranks, *local_rank, *local_ranks;
  const char *job[2];
} names;

static const names launchers[] = {
    {"torchrun or braid run",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "BRAID_JOB"}},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     NULL,
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};
enum { LAUNCHERS = sizeof launchers / sizeof launchers[0] };

uint64_t bd_launcher_hash(uint64_t hash, const void *data, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001B3);
  return hash;
}

static const char *get(const char *name) {
  const char *const value = name ? getenv(name) : NULL;
  return value && value[0] ? value : NULL;
}

// A whole number from `least` to `most`; `out_value` stays when the variable is not set.
static int read_number(const char *name, int least, int most, int *out_value, char *message,
                       size_t message_bytes) {
  const char *const text = get(name);
  if (!text) return 0;
  char *end = NULL;
  errno = 0;
  const long value = strtol(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || errno || *end || value < least || value > most) {
    snprintf(message, message_bytes, "%s=%.64s is not a number from %d to %d", name, text, least,
             most);
    return BD_RT_EXIT_USAGE;
  }
  *out_value = (int)value;
  return 0;
}

static int is_host_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_';
}

int bd_launcher_first_host(const char *list, char *out_host, size_t host_bytes) {
  size_t length = 0;
  int inside = 0;   // brackets
  int skipping = 0; // the rest of a bracket
  for (; *list && (inside || *list != ','); list++) {
    if (*list == '[' && !inside) {
      inside = 1;
      skipping = 0;
      if (list[1] < '0' || list[1] > '9') return 0;
    } else if (*list == ']' && inside) {
      inside = 0;
    } else if (inside && (*list == '-' || *list == ',')) {
      skipping = 1;
    } else if (inside && (*list < '0' || *list > '9')) {
      return 0;
    } else if (!inside && !is_host_byte(*list)) {
      return 0;
    } else if (!inside || !skipping) {
      if (length + 1 >= host_bytes) return 0;
      out_host[length++] = *list;
    }
  }
  out_host[length] = 0;
  return length > 0 && !inside;
}

static int set_host(bd_launcher *launcher, const char *name, const char *text, char *message,
                    size_t message_bytes) {
  const size_t length = strlen(text);
  int good = length < sizeof launcher->host;
  for (size_t i = 0; i < length; i++)
    good &= is_host_byte(text[i]) || text[i] == ':';
  if (!good) {
    snprintf(message, message_bytes, "%s is not a host's name or address", name);
    return BD_RT_EXIT_USAGE;
  }
  memcpy(launcher->host, text, length + 1);
  return 0;
}

// Where rank 0 is: said, or the first node of the allocation, or this machine when all are on it.
static int find_host(bd_launcher *launcher, char *message, size_t message_bytes) {
  static const char *const lists[] = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"};
  if (get("MASTER_ADDR"))
    return set_host(launcher, "MASTER_ADDR", get("MASTER_ADDR"), message, message_bytes);
  if (launcher->ranks == 1 || launcher->local_ranks == launcher->ranks)
    return set_host(launcher, "", "127.0.0.1", message, message_bytes);
  for (int i = 0; i < 2; i++) {
    if (!get(lists[i])) continue;
    if (bd_launcher_first_host(get(lists[i]), launcher->host, sizeof launcher->host)) return 0;
    snprintf(message, message_bytes, "%s is not a list of nodes", lists[i]);
    return BD_RT_EXIT_USAGE;
  }
  snprintf(message, message_bytes,
           "%s does not say where rank 0 runs: set MASTER_ADDR to its host on every rank",
           launcher->name);
  return BD_RT_EXIT_USAGE;
}

// One above MASTER_PORT, where torchrun itself listens; else one that depends on the job.
static int find_port(bd_launcher *launcher, int has_job, char *message, size_t message_bytes) {
  int port = has_job ? FIRST_JOB_PORT + (int)(launcher->job % JOB_PORTS) : DEFAULT_PORT;
  const int bad = read_number("MASTER_PORT", 1, 65534, &port, message, message_bytes);
  launcher->port = port + 1;
  return bad;
}

static int read_ranks(const names *n, bd_launcher *launcher, char *message, size_t message_bytes) {
  int bad = read_number(n->ranks, 1, MOST_RANKS, &launcher->ranks, message, message_bytes);
  if (!bad)
    bad = read_number(n->rank, 0, launcher->ranks - 1, &launcher->rank, message, message_bytes);
  launcher->local_rank = launcher->rank;
  if (!bad)
    bad = read_number(n->local_rank, 0, launcher->rank, &launcher->local_rank, message,
                      message_bytes);
  if (!bad && n->local_ranks)
    bad = read_number(n->local_ranks, 1, launcher->ranks, &launcher->local_ranks, message,
                      message_bytes);
  return bad;
}

int bd_launcher_read(bd_launcher *out_launcher, char *message, size_t message_bytes) {
  *out_launcher = (bd_launcher){.name = "no launcher",
                                .ranks = 1,
                                .local_ranks = 1,
                                .job = BD_LAUNCHER_HASH,
                                .join_seconds = 300};
  int has_job = 0, status = 0;
  for (int i = 0; i < LAUNCHERS; i++) {
    const names *const n = &launchers[i];
    if (!get(n->rank) || !get(n->ranks)) continue;
    out_launcher->name = n->name;
    out_launcher->local_ranks = 0;
    status = read_ranks(n, out_launcher, message, message_bytes);
    for (int j = 0; j < 2; j++)
      if (get(n->job[j])) {
        has_job = 1;
        out_launcher->job =
            bd_launcher_hash(out_launcher->job, get(n->job[j]), strlen(get(n->job[j])) + 1);
      }
    break;
  }
  if (!status) status = find_host(out_launcher, message, message_bytes);
  if (!status) status = find_port(out_launcher, has_job, message, message_bytes);
  if (!status)
    status = read_number("BRAID_JOIN_SECONDS", 1, 1 << 20, &out_launcher->join_seconds, message,
                         message_bytes);
  if (!status)
    status =
        read_number("BRAID_SHARE_GPU", 0, 1, &out_launcher->may_share_gpu, message, message_bytes);
  int graphs = 1, dnn = 1, epilogues = 1, beside = 1, fan = 1, lines = BD_LAUNCHER_MOST_LINES;
  if (!status) status = read_number("BRAID_GRAPHS", 0, 1, &graphs, message, message_bytes);
  if (!status) status = read_number("BRAID_CUDNN", 0, 1, &dnn, message, message_bytes);
  if (!status) status = read_number("BRAID_EPILOGUES", 0, 1, &epilogues, message, message_bytes);
  if (!status) status = read_number("BRAID_BESIDE", 0, 1, &beside, message, message_bytes);
  if (!status) status = read_number("BRAID_FAN", 0, 1, &fan, message, message_bytes);
  if (!status) status = read_number("BRAID_LINES", 0, lines, &lines, message, message_bytes);
  out_launcher->no_graphs = !graphs;
  out_launcher->no_dnn = !dnn;
  out_launcher->no_epilogues = !epilogues;
  out_launcher->no_beside = !beside;
  out_launcher->no_fan = !fan;
  out_launcher->most_lines = lines;
  return status;
}
