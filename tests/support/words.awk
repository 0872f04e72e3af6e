# A fixed text of small words, 20000 bytes, the same on every machine.
BEGIN {
  state = 7
  for (i = 0; i < 20000; i++) {
    state = (state * 1103 + 12345) % 65521
    printf "%s", state % 61 == 0 ? "\n" : state % 7 == 0 ? " " : substr("etaoinshrdlucmf", state % 15 + 1, 1)
  }
}
