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

# ---- processes

# kill_now PID...: with no chance to do anything, and waits until they are gone.
kill_now() {
  local pid
  kill -9 "$@" 2> /dev/null || step "one of $* was gone already"
  for pid in "$@"; do wait_until "process $pid is gone" is_gone "$pid"; done
}
# A zombie is gone, and its parent's affair.
is_gone() { [[ ! -e /proc/$1/stat ]] || grep -q '^State:.Z' "/proc/$1/status" 2> /dev/null; }
daemon_of() { s3oramfs status --json "$1" | grep -o '"pid": [0-9]*' | tr -dc 0-9; }

# ---- the workload: workload.cc tells what it does

# start_work SEED SECONDS; what it says goes to workload.log
start_work() {
  "$tests/workload" run "$mount" "$work/models" "$1" "$2" >> "$work/workload.log" 2>&1 &
  worker=$!
}
# end_work CODE...: it must end with one of these.
end_work() {
  local code=0
  wait "$worker" || code=$?
  [[ " $* " == *" $code "* ]] || fail "the workload ended with $code instead of $*"
}
# check_work verify|compare
check_work() {
  "$tests/workload" "$1" "$mount" "$work/models" > "$work/check.out" || fail "$(< "$work/check.out")"
  step "  $(< "$work/check.out")"
}
