#include "ir/base/utf8.h"

size_t bd_utf8_decode(const char *bytes, size_t available, uint32_t *out_character) {
  const unsigned char *in = (const unsigned char *)bytes;
  if (available == 0) return 0;
  if (in[0] < 0x80) {
    *out_character = in[0];
    return 1;
  }
  size_t length = in[0] >= 0xf0 ? 4 : in[0] >= 0xe0 ? 3 : 2;
  if (in[0] < 0xc2 || in[0] > 0xf4 || length > available) return 0;
  uint32_t character = in[0] & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((in[i] & 0xc0) != 0x80) return 0;
    character = character << 6 | (in[i] & 0x3fu);
  }
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (character < least[length] || character > 0x10ffff) return 0;
  if (character >= 0xd800 && character <= 0xdfff) return 0;
  *out_character = character;
  return length;
}
