// NumPy's arrays: what numpy.save writes is read, and what contradicts itself or is something else
// is refused with what is wrong. Exit 0: all as it must be.
#include "runtime/npy.h"
#include "tests/runtime/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/braid_npy_XXXXXX";

// Version, the header's words, the bytes of data behind it, and what is said of them.
static const struct {
  int version;
  const char *header;
  int bytes;
  const char *words; // NULL: it is read
} cases[] = {
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, NULL},
    {2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, NULL},
    {3, "{\"shape\":(),\"descr\":\"|u1\",\"fortran_order\":False}", 1, NULL},
    {1, "{'descr': '<i8', 'fortran_order': False, 'shape': (0,), }", 0, NULL},
    {4, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, "of versions 1 to 3"},
    {0, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, "of versions 1 to 3"},
    {1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8, "no little-endian floats"},
    {1, "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 8, "no little-endian floats"},
    {1, "{'descr': '<U4', 'fortran_order': False, 'shape': (2,), }", 32, "no little-endian floats"},
    {1, "{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", 16, "no little-endian floats"},
    {1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8, "no plain type"},
    {1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 24, "not in row-major order"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", 8, "an extent is no number"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0,), }", 8, "its shape is no tuple"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': [2], }", 8, "its shape is no tuple"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,", 8, "an extent is no number"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 8,
     "an extent is no number up to 2^46"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4194304, 4194304, 4194304, 4194304), }",
     8, "shorter than its shape says"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }", 4,
     "more than 8 dimensions"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 8, "shorter than its shape"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 8, "longer than its shape"},
    {1, "{'descr': '<f4', 'fortran_order': False, }", 8, "other keys than it should"},
    {1, "{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", 8,
     "other keys than it should"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}", 8,
     "other keys than it should"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } __import__('os')", 8,
     "other keys than it should"},
    {1, "['descr']", 8, "its header is no dictionary"},
    {1, "", 8, "its header is no dictionary"},
};

static void write_array(const unsigned char *magic, int version, const char *header, size_t said,
                        int bytes) {
  static const unsigned char data[64];
  FILE *const file = fopen(path, "w");
  if (!file) abort();
  fwrite(magic, 1, 6, file);
  const int wide = version > 1;
  const unsigned char prefix[6] = {(unsigned char)version,      0,
                                   (unsigned char)said,         (unsigned char)(said >> 8),
                                   (unsigned char)(said >> 16), (unsigned char)(said >> 24)};
  fwrite(prefix, 1, wide ? 6 : 4, file);
  fwrite(header, 1, strlen(header), file);
  fwrite(data, 1, (size_t)bytes, file);
  if (fclose(file) != 0) abort();
}

static void expect(const char *words, const char *header) {
  char message[512] = "";
  int fd = -1;
  bd_rt_tensor tensor;
  const int status = bd_rt_npy_open(path, &fd, &tensor, message, sizeof message);
  const int good = words ? status == BD_RT_EXIT_DATA && strstr(message, words) && fd < 0
                         : status == 0 && fd >= 0;
  if (!good) fprintf(stderr, "%s: status %d: \"%s\"\n", header, status, message);
  check_true(words ? words : "it is read", good);
  if (fd >= 0) close(fd);
}

int main(void) {
  static const unsigned char magic[6] = "\x93NUMPY", other[6] = "PK\x03\x04";
  const char *const sound = cases[0].header;
  const int fd = mkstemp(path);
  if (fd < 0) abort();
  close(fd);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    write_array(magic, cases[i].version, cases[i].header, strlen(cases[i].header), cases[i].bytes);
    expect(cases[i].words, cases[i].header);
  }
  write_array(other, 1, sound, strlen(sound), 24);
  expect("does not begin as .npy files", "an archive (.npz)");
  write_array(magic, 1, sound, 60000, 24);
  expect("its header is longer than the file or 64 KiB", "a header past the end");
  write_array(magic, 2, sound, 0xffffffff, 24);
  expect("its header is longer than the file or 64 KiB", "a header of 4 GiB");
  if (truncate(path, 7) != 0) abort();
  expect("does not begin as .npy files", "a few bytes");
  unlink(path);
  expect("No such file", "no file");
  return check_result(0);
}
