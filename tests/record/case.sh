# Steps shared by the record's tests. Sourced with $braid and $record set, and $root, the project's folder.

# NAME -> `model` and `cluster` of a case
find_case() {
  read -r model cluster < <(awk -v name="$1" '$1 == name { print $2, $3 }' "$root/tests/record/cases.txt")
  [ -n "$model" ] || { echo "cases.txt has no $1"; exit 1; }
  [ ! -e "$root/$model" ] || model=$root/$model
}

# NAME FOLDER: emits the case's program and links it for the recorder; `files` are what the recorder takes.
build_case() {
  local plan=$root/tests/record/plans/$1.json
  find_case "$1"
  "$braid" compile "$model" --cluster "$cluster" --plan "$plan" --emit exec -o "$2/exec.braid"
  "$braid" compile "$model" --cluster "$cluster" --plan "$plan" --emit c -o "$2/out"
  cc -std=c11 -D_GNU_SOURCE -O0 -Wall -Werror -shared -fPIC -I"$2/out" -I"$root" -o "$2/program.so" \
    "$2"/out/main.c "$2"/out/stage*.c
  files=("$2/program.so" "$2/exec.braid" "$2/out/plan.json")
}
