// What launchers say in the environment, and Slurm's node lists.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/braid_rt_abi.h"
#include "runtime/cuda/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"RANK",
                                    "WORLD_SIZE",
                                    "LOCAL_RANK",
                                    "LOCAL_WORLD_SIZE",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "TORCHELASTIC_RUN_ID",
                                    "BRAID_JOB",
                                    "BRAID_JOIN_SECONDS",
                                    "BRAID_SHARE_GPU",
                                    "BRAID_GRAPHS",
                                    "BRAID_CUDNN",
                                    "OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    "PMIX_NAMESPACE",
                                    "OMPI_MCA_ess_base_jobid",
                                    "SLURM_PROCID",
                                    "SLURM_NTASKS",
                                    "SLURM_LOCALID",
                                    "SLURM_JOB_ID",
                                    "SLURM_STEP_ID",
                                    "SLURM_STEP_NODELIST",
                                    "SLURM_JOB_NODELIST"};

static bd_launcher launcher;
static char message[512];

// Reads an environment of exactly these "NAME=VALUE" and NULL.
static int read_these(const char *first, ...) {
  va_list arguments;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    unsetenv(names[i]);
  va_start(arguments, first);
  for (const char *text = first; text; text = va_arg(arguments, const char *)) {
    char name[64];
    const char *const value = strchr(text, '=') + 1;
    snprintf(name, sizeof name, "%.*s", (int)(value - text - 1), text);
    setenv(name, value, 1);
  }
  va_end(arguments);
  message[0] = 0;
  return bd_launcher_read(&launcher, message, sizeof message);
}

static void expect_place(int rank, int ranks, int local_rank, int local_ranks, const char *host) {
  assert_int_equal(launcher.rank, rank);
  assert_int_equal(launcher.ranks, ranks);
  assert_int_equal(launcher.local_rank, local_rank);
  assert_int_equal(launcher.local_ranks, local_ranks);
  assert_string_equal(launcher.host, host);
  assert_string_equal(message, "");
}

static void test_without_launcher(void **state) {
  (void)state;
  assert_int_equal(read_these(NULL), 0);
  expect_place(0, 1, 0, 1, "127.0.0.1");
  assert_int_equal(launcher.join_seconds, 300);
  assert_int_equal(launcher.may_share_gpu, 0);
  assert_int_equal(launcher.no_graphs, 0);
  assert_int_equal(launcher.no_dnn, 0);
  assert_int_equal(read_these("BRAID_GRAPHS=0", "BRAID_CUDNN=0", NULL), 0);
  assert_int_equal(launcher.no_graphs, 1);
  assert_int_equal(launcher.no_dnn, 1);
}

static void test_torchrun(void **state) {
  (void)state;
  assert_int_equal(read_these("RANK=9", "WORLD_SIZE=16", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=8",
                              "MASTER_ADDR=node-0.cluster", "MASTER_PORT=29400",
                              "TORCHELASTIC_RUN_ID=a", "BRAID_SHARE_GPU=1", "BRAID_JOIN_SECONDS=7",
                              NULL),
                   0);
  expect_place(9, 16, 1, 8, "node-0.cluster");
  assert_int_equal(launcher.port, 29401); // torchrun itself listens at its port
  assert_int_equal(launcher.join_seconds, 7);
  assert_int_equal(launcher.may_share_gpu, 1);
  const uint64_t job = launcher.job;
  assert_int_equal(read_these("RANK=9", "WORLD_SIZE=16", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=8",
                              "MASTER_ADDR=node-0.cluster", "TORCHELASTIC_RUN_ID=b", NULL),
                   0);
  assert_true(launcher.job != job);
  assert_in_range(launcher.port, 20001, 32001);
}

static void test_open_mpi(void **state) {
  (void)state;
  // mpirun inside of a Slurm allocation: every rank sees the batch step's number.
  assert_int_equal(read_these("OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4",
                              "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                              "PMIX_NAMESPACE=prterun-1@1", "SLURM_PROCID=0", "SLURM_NTASKS=4",
                              "SLURM_JOB_NODELIST=gpu[07,09]", NULL),
                   0);
  expect_place(3, 4, 1, 2, "gpu07");
  assert_int_equal(read_these("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                              "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2", NULL),
                   0);
  expect_place(1, 2, 1, 2, "127.0.0.1");
}

static void test_slurm(void **state) {
  (void)state;
  assert_int_equal(read_these("SLURM_PROCID=5", "SLURM_NTASKS=8", "SLURM_LOCALID=1",
                              "SLURM_JOB_ID=77", "SLURM_STEP_ID=0",
                              "SLURM_STEP_NODELIST=dgx[002-003]", "SLURM_JOB_NODELIST=dgx[001-003]",
                              NULL),
                   0);
  expect_place(5, 8, 1, 0, "dgx002");
  const int port = launcher.port;
  assert_int_equal(read_these("SLURM_PROCID=5", "SLURM_NTASKS=8", "SLURM_LOCALID=1",
                              "SLURM_JOB_ID=77", "SLURM_STEP_ID=0",
                              "SLURM_JOB_NODELIST=dgx[001-003]", NULL),
                   0);
  expect_place(5, 8, 1, 0, "dgx001");
  assert_int_equal(launcher.port, port); // of the job, not of the nodes
}

#define EXPECT_BAD(part, ...)                                                                      \
  do {                                                                                             \
    assert_int_equal(read_these(__VA_ARGS__, NULL), BD_RT_EXIT_USAGE);                             \
    if (!strstr(message, part)) fail_msg("\"%s\" says nothing of \"%s\"", message, part);          \
  } while (0)

static void test_malformed(void **state) {
  (void)state;
  EXPECT_BAD("RANK=two", "RANK=two", "WORLD_SIZE=4", "MASTER_ADDR=a");
  EXPECT_BAD("RANK=4", "RANK=4", "WORLD_SIZE=4", "MASTER_ADDR=a");
  EXPECT_BAD("RANK=-1", "RANK=-1", "WORLD_SIZE=4", "MASTER_ADDR=a");
  EXPECT_BAD("WORLD_SIZE=0", "RANK=0", "WORLD_SIZE=0", "MASTER_ADDR=a");
  EXPECT_BAD("WORLD_SIZE=99999999999999999999", "RANK=0", "WORLD_SIZE=99999999999999999999");
  EXPECT_BAD("LOCAL_RANK= 1", "RANK=1", "WORLD_SIZE=2", "LOCAL_RANK= 1", "MASTER_ADDR=a");
  EXPECT_BAD("MASTER_PORT=65535", "RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=65535");
  EXPECT_BAD("MASTER_PORT=80x", "RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=80x");
  EXPECT_BAD("MASTER_ADDR", "RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a b");
  EXPECT_BAD("MASTER_ADDR", "RANK=0", "WORLD_SIZE=2");
  EXPECT_BAD("SLURM_JOB_NODELIST", "SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_NODELIST=a[");
  EXPECT_BAD("BRAID_SHARE_GPU=yes", "BRAID_SHARE_GPU=yes");
  EXPECT_BAD("BRAID_JOIN_SECONDS=0", "BRAID_JOIN_SECONDS=0");
  EXPECT_BAD("BRAID_CUDNN=off", "BRAID_CUDNN=off");
}

static void test_node_lists(void **state) {
  (void)state;
  static const char *const good[][2] = {{"login", "login"},
                                        {"a,b", "a"},
                                        {"gpu[03-07,9],login", "gpu03"},
                                        {"gpu[9]", "gpu9"},
                                        {"r[1-2]n[3,5]", "r1n3"},
                                        {"r[1-2]n[3,5]-ib,x", "r1n3-ib"},
                                        {"host-1.example.org", "host-1.example.org"}};
  static const char *const bad[] = {"",   ",a",      "a[",  "a[]", "a[1",      "a[x]",
                                    "a]", "a[1[2]]", "a b", "a;b", "a[1-2/3]", "[-1]"};
  char host[32];
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_true(bd_launcher_first_host(good[i][0], host, sizeof host));
    assert_string_equal(host, good[i][1]);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (bd_launcher_first_host(bad[i], host, sizeof host)) fail_msg("'%s' is taken", bad[i]);
  assert_true(bd_launcher_first_host("abc", host, 4));
  assert_false(bd_launcher_first_host("abcd", host, 4));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_without_launcher), cmocka_unit_test(test_torchrun),
      cmocka_unit_test(test_open_mpi),         cmocka_unit_test(test_slurm),
      cmocka_unit_test(test_malformed),        cmocka_unit_test(test_node_lists)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
