# shellcheck shell=bash
# Sourced after lib.sh by the tests that break things: disks, links, processes.

tests=$(realpath "$2") # the folder of the test programs
declare -a link_pid=()

# ---- disks: dropfs.cc says which commands they understand

# make_disk DIRECTORY: mounts an empty disk there.
make_disk() {
  mkdir -p "$1"
  "$tests/dropfs" "$1" >> "$work/disks.log" 2>&1 &
  wait_until "the disk $1 is mounted" test -e "$1/.dropfs"
}
# tell DISK COMMAND...
tell() { echo "${*:2}" > "$1/.dropfs"; }
power_is() { [[ $(< "$1/.dropfs") == "$2 "* ]]; }
# power_cut DISK [WHAT-SURVIVES]: nobody may be using the disk.
power_cut() {
  tell "$1" freeze
  tell "$1" off
  tell "$1" on "${@:2}"
}

# damage_every STEP FIRST FILE...: changes some bytes at FIRST, and again after every STEP.
damage_every() {
  python3 -c '
import sys
step, first = int(sys.argv[1]), int(sys.argv[2])
for path in sys.argv[3:]:
    with open(path, "r+b") as file:
        for at in range(first, file.seek(0, 2), step):
            file.seek(at)
            file.write(b"damaged")' "$@"
}

# ---- processes

# kill_now PID...: kills processes without a chance to do anything, and waits until they are gone.
kill_now() {
  local pid
  kill -9 "$@" 2> /dev/null || step "one of $* was gone already"
  for pid in "$@"; do wait_until "process $pid is gone" is_gone "$pid"; done
}

# ---- the workload: run_workload.cc says what it does

# start_work SEED SECONDS: starts the workload, whose output goes to workload.log.
start_work() {
  "$tests/workload" run "$mount" "$work/models" "$1" "$2" > "$work/workload.log" 2>&1 &
  worker=$!
}
# end_work CODE: the workload must end with this code.
end_work() {
  local code=0
  wait "$worker" || code=$?
  [[ $code == "$1" ]] || fail "the workload ended with $code instead of $1"
  [[ -z ${VERBOSE:-} ]] || cat "$work/workload.log"
}
# nothing_took SECONDS: no step of the workload took this long or longer.
nothing_took() {
  local longest
  longest=$(grep -o 'longest [0-9]*' "$work/workload.log" | sort -k 2 -n | tail -n 1 | tr -dc 0-9)
  ((longest < $1 * 1000)) || fail "an operation took $longest ms"$'\n'"$(< "$work/workload.log")"
}
# check_work verify|compare
check_work() {
  "$tests/workload" "$1" "$mount" "$work/models" > "$work/check.out" || fail "$(< "$work/check.out")"
  step "  $(< "$work/check.out")"
}

# ---- links: link.cc

# make_links: puts links in front of the servers of make_servers, which do not run yet.
make_links() {
  for n in 1 2 3; do
    free_port "listen_port[$n]"
    make_link "$n"
  done
}
cleanup_more() { # their command lines do not show whose they are
  ((${#link_pid[@]} == 0)) || kill -9 "${link_pid[@]}"
}
make_link() {
  "$tests/link" "$host" "${server_port[$1]}" "${listen_port[$1]}" >> "$work/links.log" 2>&1 &
  link_pid[$1]=$!
  wait_until "link $1 is there" answers_on "${server_port[$1]}"
}

# ---- a vault with disks that fail

# set_up local|remote INIT-OPTION...: makes a new vault on $disk, with servers that share this disk,
# or with a disk ($work/store1, ...) and a link for each server. Blocks and buckets are small, so
# that much happens in a short time.
mount=$work/mount
disk=$work/disk
vault=$disk/vault
set_up() {
  local code=0 said n
  local init=(s3oramfs init --no-passphrase --block-size 4K --evict-every 16 --bucket-size 32
    --allow-overflow "${@:2}" "$vault")
  mkdir "$mount"
  make_disk "$disk"
  if [[ $1 == local ]]; then
    "${init[@]}" --local 2> "$work/init.log"
    server_pid_of() { processes_of "$vault/servers/$1"; }
    restart_server() { :; } # the daemon does it
  else
    for n in 1 2 3; do make_disk "$work/store$n"; done
    make_servers store
    make_links
    start_servers
    init+=("${server_options[@]}")
    said=$("${init[@]}" 2> "$work/init.log") || code=$?
    [[ $code == 15 ]] || fail "init ended with $code instead of 15"
    authorize "$(shown_key <<< "$said")"
    "${init[@]}" --wait 20 2> "$work/init.log"
    server_pid_of() { echo "${server_pid[store$1]}"; }
    restart_server() { start_server "$1"; }
    sync "$work"/store? # keygen and authorize make no directory durable, and need not
  fi
  # A vault must never vanish after init said that it made it.
  power_cut "$disk"
}
