#!/bin/sh
# Lists the images of a fat binary, a line each: elf (machine code) or ptx, and the architecture. CUDA's own lister, cuobjdump,
# is no part of what programs are built with. Words are little-endian: a header of 16 bytes begins with 0xba55ed50; before each image
# stands its kind (1: PTX, 2: ELF) in 16 bits, the length of what stands there, the image's, and 28 bytes on its architecture.
#   images.sh FATBIN
set -eu
od -An -v -tu4 -w4 "$1" | awk -v file="$1" '
  { word[NR - 1] = $1 + 0 }
  END {
    if (word[0] != 3126193488 || 16 + word[2] != 4 * NR) { print file ": no fat binary"; exit 1 }
    for (at = 4; at < NR; at += (word[at + 1] + word[at + 2]) / 4) {
      kind = word[at] % 65536
      if (word[at + 1] < 32 || kind != 1 && kind != 2) { print file ": no image at byte " 4 * at; exit 1 }
      print (kind == 1 ? "ptx" : "elf"), word[at + 7]
    }
  }'
