#include "tests/device/fake/trouble.h"

#include "tests/device/fake/device.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int is_troubled(void) {
  const long long rank = bd_fake_setting("BD_FAKE_TROUBLED", -1);
  return rank == -2 || rank == bd_fake_setting("BD_FAKE_RANK", 0);
}

static int is_after(void) {
  return bd_fake_count.collectives >= bd_fake_setting("BD_FAKE_AFTER", 0);
}

int bd_fake_never_joins(void) {
  return is_troubled() && bd_fake_setting("BD_FAKE_NEVER_JOINS", 0);
}

ncclResult_t bd_fake_async_error(void) {
  if (!is_troubled() || !is_after()) return ncclSuccess;
  return (ncclResult_t)bd_fake_setting("BD_FAKE_ASYNC_ERROR", ncclSuccess);
}

void bd_fake_block(void) {
  const char *const path = getenv("BD_FAKE_BLOCKED");
  if (!is_troubled() || !is_after() || !bd_fake_setting("BD_FAKE_BLOCKS", 0)) return;
  const int fd = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (fd >= 0) close(fd);
  for (;;)
    pause();
}
