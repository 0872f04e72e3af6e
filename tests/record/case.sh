# Steps shared by the record's tests. Sourced with $braid and $record set, and $root, the project's folder.

# NAME -> `steps`, `model` and `cluster` of a case
find_case() {
  local line
  line=$(awk -v name="$1" '$1 == name { print $2, $3, $4 }' "$root/tests/record/cases.txt")
  [ -n "$line" ] || { echo "cases.txt has no $1"; exit 1; }
  read -r steps model cluster <<<"$line"
  [ ! -e "$root/$model" ] || model=$root/$model
}

# NAME FOLDER: emits the case's program and links it for the recorder; `files` are what the recorder takes.
build_case() {
  local from
  find_case "$1"
  from=("$model" --cluster "$cluster" --plan "$root/tests/record/plans/$1.json")
  "$braid" compile "${from[@]}" --emit exec -o "$2/exec.braid"
  "$braid" compile "${from[@]}" --emit c -o "$2/out"
  cc -std=c11 -D_GNU_SOURCE -O0 -Wall -Wextra -Werror -shared -fPIC -I"$2/out" -I"$root" -o "$2/program.so" \
    "$2"/out/main.c "$2"/out/stage*.c
  files=("$2/program.so" "$2/exec.braid" "$2/out/plan.json")
}
