# A chain of 60 layers with 12 options each, in far too little memory: numbers of a small generator.
function next_number(most) {
  seed = (seed * 16807) % 2147483647
  return 1 + seed % most
}
BEGIN {
  seed = 7
  print "{\"braid_layers\": 1, \"devices\": [{\"kind\": \"a\", \"count\": 8, \"cap_bytes\": 100000}],"
  print "\"link\": {\"bytes_per_second\": 1e6}, \"micro_batches\": [8, 16], \"layers\": ["
  for (layer = 0; layer < 60; layer++) {
    printf "{\"name\": \"l%d\", \"output_bytes\": %d, \"options\": [\n", layer, next_number(1000)
    for (option = 0; option < 12; option++)
      printf "%s{\"forward_seconds\": %d, \"backward_seconds\": %d, \"fixed_bytes\": %d, \"micro_batch_bytes\": %d}\n",
        option ? "," : "", next_number(50), next_number(90), next_number(900000), next_number(300000)
    print layer < 59 ? "]}," : "]}"
  }
  print "]}"
}
