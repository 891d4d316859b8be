# shellcheck shell=bash
# Runs every command in the README and the manual pages, in the order in which they appear, with
# servers on this machine. documented.py says which commands are not run, and why.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

free_port first
free_port second
free_port third
free_port fourth
source=$(realpath "$(dirname "$0")/../..")
ulimit -c 0
env -C "$work" PATH="$bin:$PATH" python3 "$source/tests/system/documented.py" "$source" "$work" "$host" \
  "$first" "$second" "$third" "$fourth"
