#include "runtime/json.h"

static void skip_space(bd_rt_json *json) {
  while (json->at < json->end &&
         (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r'))
    json->at++;
}

int bd_rt_json_take(bd_rt_json *json, char c) {
  skip_space(json);
  if (json->at == json->end || *json->at != c) return 0;
  json->at++;
  return 1;
}

static int hex4(bd_rt_json *json, uint32_t *out_value) {
  uint32_t value = 0;
  if (json->end - json->at < 4) return 0;
  for (int i = 0; i < 4; i++) {
    const char c = *json->at++;
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return 0;
    value = value * 16 + (uint32_t)digit;
  }
  *out_value = value;
  return 1;
}

static size_t put_utf8(uint32_t code, char *out) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  if (code < 0x800) {
    out[0] = (char)(0xC0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3F));
    return 2;
  }
  if (code < 0x10000) {
    out[0] = (char)(0xE0 | code >> 12);
    out[1] = (char)(0x80 | (code >> 6 & 0x3F));
    out[2] = (char)(0x80 | (code & 0x3F));
    return 3;
  }
  out[0] = (char)(0xF0 | code >> 18);
  out[1] = (char)(0x80 | (code >> 12 & 0x3F));
  out[2] = (char)(0x80 | (code >> 6 & 0x3F));
  out[3] = (char)(0x80 | (code & 0x3F));
  return 4;
}

// After the 'u' of an escape.
static size_t unicode(bd_rt_json *json, char *out) {
  uint32_t code, low;
  if (!hex4(json, &code) || code == 0 || (code >= 0xDC00 && code <= 0xDFFF)) return 0;
  if (code >= 0xD800 && code <= 0xDBFF) {
    if (json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u') return 0;
    json->at += 2;
    if (!hex4(json, &low) || low < 0xDC00 || low > 0xDFFF) return 0;
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  return put_utf8(code, out);
}

static size_t escape(bd_rt_json *json, char *out) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (json->at == json->end) return 0;
  const char c = *json->at++;
  if (c == 'u') return unicode(json, out);
  for (int i = 0; from[i]; i++)
    if (from[i] == c) {
      out[0] = to[i];
      return 1;
    }
  return 0;
}

int bd_rt_json_string(bd_rt_json *json, char *out, size_t *out_length) {
  size_t length = 0;
  if (!bd_rt_json_take(json, '"')) return 0;
  while (json->at < json->end && *json->at != '"') {
    const char c = *json->at++;
    if ((unsigned char)c < 0x20) return 0;
    if (c == '\\') {
      const size_t bytes = escape(json, out + length);
      if (!bytes) return 0;
      length += bytes;
    } else {
      out[length++] = c;
    }
  }
  if (json->at == json->end) return 0;
  json->at++;
  out[length] = 0;
  *out_length = length;
  return 1;
}

int bd_rt_json_whole(bd_rt_json *json, int64_t *out_value) {
  skip_space(json);
  const char *const start = json->at;
  int64_t value = 0;
  while (json->at < json->end && *json->at >= '0' && *json->at <= '9') {
    if (value > (INT64_C(1) << 62) / 10 - 1) return 0;
    value = value * 10 + (*json->at++ - '0');
  }
  if (json->at == start || (*start == '0' && json->at - start > 1)) return 0;
  *out_value = value;
  return 1;
}

// A number, true, false or null; their spelling is not looked at.
static int skip_word(bd_rt_json *json) {
  const char *const start = json->at;
  while (json->at < json->end &&
         ((*json->at >= '0' && *json->at <= '9') || (*json->at >= 'a' && *json->at <= 'z') ||
          *json->at == '-' || *json->at == '+' || *json->at == '.' || *json->at == 'E'))
    json->at++;
  return json->at > start;
}

int bd_rt_json_skip(bd_rt_json *json, char *scratch, int depth) {
  size_t length;
  skip_space(json);
  if (json->at == json->end || depth == 0) return 0;
  const char first = *json->at;
  if (first == '"') return bd_rt_json_string(json, scratch, &length);
  if (first != '{' && first != '[') return skip_word(json);
  const char last = first == '{' ? '}' : ']';
  json->at++;
  if (bd_rt_json_take(json, last)) return 1;
  do {
    if (first == '{' && !(bd_rt_json_string(json, scratch, &length) && bd_rt_json_take(json, ':')))
      return 0;
    if (!bd_rt_json_skip(json, scratch, depth - 1)) return 0;
  } while (bd_rt_json_take(json, ','));
  return bd_rt_json_take(json, last);
}

void bd_rt_json_write(FILE *out, const char *text) {
  fputc('"', out);
  for (; *text; text++) {
    const unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      fprintf(out, "\\%c", c);
    else if (c < 0x20)
      fprintf(out, "\\u%04x", c);
    else
      fputc(c, out);
  }
  fputc('"', out);
}
