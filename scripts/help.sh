# Sourced by scripts with their arguments: --help in front prints the comment at the script's head, and ends it.
case ${1:-} in
  --help | -h) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
