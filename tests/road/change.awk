# Merges two cuts of one plan into one whose blocks change their form:
#   awk -f change.awk SECOND FIRST
# Of the blocks on every stage, the later half takes the second cut; the rest is as the first has it.
function number(name,   rest) {
  rest = $0
  sub(".*\"" name "\": ", "", rest)
  return rest + 0
}

function layers(first, count, strategy, comma) {
  printf "    {\"first\": %d, \"count\": %d, \"stage\": %d, \"strategy\": \"%s\"}%s\n", first, count,
         number("stage"), strategy, comma
}

NR == FNR {
  if (/"name": "block.0"/) taking = 1
  if (taking && /^    }/) taking = 0
  if (taking) block = block $0 "\n"
  next
}

/"strategy": "block.0"/ {
  later = int((number("count") + 1) / 2)
  early = number("count") - later
  if (early) layers(number("first"), early, "block.0", ",")
  layers(number("first") + early, later, "block.1", /,$/ ? "," : "")
  next
}

{ print }

/"strategies": / {
  sub(/block\.0/, "block.1", block)
  printf "    {\n%s    },\n", block
}
