# shellcheck shell=bash
# Sourced, after lib.sh, by the tests that break things: disks, links, processes.

tests=$(realpath "$2") # the folder of the test programs

# ---- disks: dropfs.cc tells what they understand

# make_disk DIRECTORY: an empty disk there.
make_disk() {
  mkdir -p "$1"
  "$tests/dropfs" "$1" >> "$work/disks.log" 2>&1 &
  wait_until "the disk $1 is mounted" test -e "$1/.dropfs"
}
# tell DISK COMMAND...
tell() { echo "${*:2}" > "$1/.dropfs"; }
power_is() { [[ $(< "$1/.dropfs") == "$2 "* ]]; }
# power_cut DISK [WHAT-SURVIVES]: nobody may use it.
power_cut() {
  tell "$1" freeze
  tell "$1" off
  tell "$1" on "${@:2}"
}
