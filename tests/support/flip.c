// Turns the bits of one byte of a file: flip FILE POSITION, from its end where that is negative.
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  FILE *const file = fopen(argv[1], "r+");
  const long at = strtol(argv[2], NULL, 10);
  if (!file || fseek(file, at, at < 0 ? SEEK_END : SEEK_SET)) return 1;
  const int byte = fgetc(file);
  if (byte == EOF || fseek(file, -1, SEEK_CUR)) return 1;
  return fputc(~byte & 0xff, file) == EOF || fclose(file) ? 1 : 0;
}
