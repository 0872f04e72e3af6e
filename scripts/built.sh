# Sourced, with $root set: $BRAID becomes a built braid, unless it names one.
if [ -z "${BRAID:-}" ]; then
  "$root/scripts/install.sh"
  "$root/scripts/build.sh" "$root/build"
  BRAID=$root/build/braid
fi
