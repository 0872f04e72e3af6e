# From the PTX of a program's generated kernels to the table that the fake device finds them in.
function finish() {
  if (name == "") return
  rows = rows sprintf("    {\"%s\", (emulate_kernel)%s, %d, %d, {%s}},\n", name, name, threads, parameters, bytes)
  names = names sprintf("void %s(void);\n", name)
  count++
  name = ""
}
/\.entry/ {
  finish()
  name = $0
  sub(/.*\.entry /, "", name)
  sub(/\(.*/, "", name)
  threads = parameters = 0
  bytes = ""
}
/^[\t ]*\.param .*_param_[0-9]+\[/ {
  size = $0
  sub(/.*\[/, "", size)
  sub(/\].*/, "", size)
  bytes = bytes (parameters ? ", " : "") size
  parameters++
}
/^\.reqntid/ { threads = $2 + 0 }
END {
  finish()
  printf "#include \"tests/device/fake/library.h\"\n\n%s\n", names
  printf "const bd_fake_kernel bd_fake_kernels[] = {\n%s    {0},\n};\nconst int bd_fake_kernel_count = %d;\n", rows, count
}
