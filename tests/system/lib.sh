# shellcheck shell=bash
# Sourced by the system tests, whose first argument is the folder of the programs.
set -euo pipefail

bin=$(realpath "$1")
work=$(mktemp -d "${TMPDIR:-/tmp}/s3oramfs-test-XXXXXX")
# A loopback address for this test alone, so that no other test's server takes its ports.
host=127.$(($$ >> 16 & 255)).$(($$ >> 8 & 255)).$(($$ & 255))
declare -A server_pid=()
declare -a listen_port=() starter=() server_more=()
server_count=3
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1

# The tests write no more than they need to show something, because there are many of them.
: "${TREE_FILES:=500}" "${TREE_BYTES:=6000000}" "${RANDOM_MIB:=16}"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
step() { printf '%(%H:%M:%S)T  %s\n' -1 "$*"; }
s3oramfs() { "$bin/s3oramfs" "$@"; }
serverd() { "$bin/s3oramfs-serverd" "$@"; }

# wait_until DESCRIPTION COMMAND...: waits at most 30 s for the command to succeed.
wait_until() {
  local end=$((SECONDS + 30)) pause=0.05 times=0
  until "${@:2}"; do
    ((SECONDS < end)) || fail "waited in vain: $1"
    ((++times < 20)) || pause=0.2 # the command may cost more than the pause
    sleep "$pause"
  done
}

# expect CODE WORDS COMMAND...: the command must fail with this exit code, and print WORDS.
expect() {
  local code=0 said
  said=$("${@:3}" 2>&1) || code=$?
  [[ $code == "$1" ]] || fail "exit code $code instead of $1 from: ${*:3}"$'\n'"$said"
  [[ $said == *"$2"* ]] || fail "no word of \"$2\" from: ${*:3}"$'\n'"$said"
}

# allow "CODE..." COMMAND...: the command must end with one of these codes, and prints nothing.
allow() {
  local code=0 said
  said=$("${@:2}" 2>&1) || code=$?
  [[ " $1 " == *" $code "* ]] || fail "exit code $code, not one of $1, from: ${*:2}"$'\n'"$said"
}

# ended PID CODE...: waits for a background command, which must end with one of these codes.
ended() {
  local code=0
  wait "$1" || code=$?
  [[ " ${*:2} " == *" $code "* ]] || fail "process $1 ended with $code, not one of ${*:2}"
}

daemon_of() { s3oramfs status --json "$1" | grep -o '"pid": [0-9]*' | tr -dc 0-9; }
# The status of $vault has these words.
status_says() { s3oramfs status "$vault" | grep -qF "$1"; }
is_mounted() { grep -qF " $1 " /proc/self/mountinfo; }
# The processes whose command line contains a path.
processes_of() {
  local file words
  for file in /proc/[0-9]*/cmdline; do
    mapfile -d '' -t words 2> /dev/null < "$file" || continue
    [[ "${words[*]}" != *"$1"* ]] || echo "${file//[!0-9]/}"
  done
}
# A zombie without other threads has closed all its files; the rest is its parent's business.
is_gone() {
  local tasks=("/proc/$1/task"/*)
  [[ ! -e /proc/$1/stat ]] ||
    { ((${#tasks[@]} == 1)) && grep -q '^State:.Z' "/proc/$1/status" 2> /dev/null; }
}
no_processes_of() { [[ -z $(processes_of "$1") ]]; }

# Runs in a mount namespace of its own, in which other tests' mounts would otherwise live on.
leave_others_mounts() {
  awk '/ - fuse\.s3oramfs / { print $5 }' /proc/self/mountinfo | tac | xargs -r umount --internal-only --lazy
}

cleanup() {
  local code=$? point points pid log
  set +e
  if ((code != 0)); then
    for log in "$work"/*.log "$work"{,/disk}/*/run/*.log; do
      [[ ! -s $log ]] || { echo "--- ${log##*/}"; tail -n 40 "$log"; } >&2
    done
  fi
  # A daemon that a test has stopped would keep its mount, and unmounting would wait for it.
  for pid in $(processes_of "$work"); do kill -CONT "$pid"; done
  mapfile -t points < <(cut -d ' ' -f 5 /proc/self/mountinfo) # reads all of it before it changes
  for point in "${points[@]}"; do
    [[ $point != "$work"/* ]] || umount -l "$point" || fusermount3 -uz "$point"
  done
  for pid in $(processes_of "$work"); do kill -9 "$pid"; done # the test's own: the path is fresh
  rm -rf --one-file-system "$work"
  cleanup_more
  exit "$code"
}
cleanup_more() { :; }
trap cleanup EXIT
trap 'exit 1' INT TERM

need_fuse() {
  [[ -c /dev/fuse ]] || fail "there is no /dev/fuse here, and this test mounts"
  command -v fusermount3 > /dev/null || fail "fusermount3 is missing (Debian package fuse3)"
}

# What must come back: type, mode, owner, links, time and target of every file, and its content.
snapshot() {
  (
    cd "$1"
    find . -type d -printf 'd %m %U %G %T@ %p\n' -o -printf '%y %m %U %G %n %T@ %s %l %p\n' |
      LC_ALL=C sort
    find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum
  )
}
same() {
  cmp -s "$1" "$2" || fail "$3:"$'\n'"$(diff "$1" "$2" | head -n 20)"
}

# Copies up to $2 files and $3 bytes of real files, in their directories.
make_tree() {
  mkdir "$1"
  (
    cd /usr/include
    find . '(' -type f -o -type l ')' -printf '%s\t%p\n' | LC_ALL=C sort -k 2 |
      awk -F '\t' -v files="$2" -v bytes="$3" \
        '{ sum += $1 } NR <= files && sum <= bytes { print $2 }' |
      xargs -d '\n' cp -a --parents -t "$1"
  )
}

# Makes a repository with a small program in it.
make_repository() {
  local i
  mkdir "$1"
  for i in {1..5}; do
    printf 'int f%d(int x) { return x * %d + 1; }\n' "$i" "$i" > "$1/f$i.cc"
  done
  {
    for i in {1..5}; do echo "int f$i(int);"; done
    echo '#include <cstdio>'
    echo 'int main() { int x = 1;'
    for i in {1..5}; do echo "x = f$i(x) % 10007;"; done
    echo 'std::printf("%d\n", x); }'
  } > "$1/main.cc"
  printf 'objects := $(patsubst %%.cc,%%.o,$(wildcard *.cc))\nprogram: $(objects)\n\t$(CXX) -o $@ $^\n' \
    > "$1/Makefile"
  git -C "$1" init -q -b main
  git -C "$1" add .
  git -C "$1" -c user.name=test -c user.email=test@localhost commit -q -m 'A program'
}

# Uses a mounted directory as people do, and immediately checks what can be checked.
fill() {
  local mount=$1 start=$SECONDS
  make_tree "$work/tree" "$TREE_FILES" "$TREE_BYTES"
  step "copying $(find "$work/tree" -type f | wc -l) files, $(du -sh "$work/tree" | cut -f 1)"
  cp -a "$work/tree" "$mount/"
  snapshot "$work/tree" > "$work/tree.source"
  snapshot "$mount/tree" > "$work/tree.copy"
  same "$work/tree.source" "$work/tree.copy" "the copied tree differs"
  step "copying $RANDOM_MIB MiB"
  head -c "${RANDOM_MIB}M" /dev/urandom > "$work/random"
  cp "$work/random" "$mount/random"
  cmp "$work/random" "$mount/random"
  step "cloning and building"
  make_repository "$work/repository"
  git clone -q "$work/repository" "$mount/clone"
  make -s -C "$mount/clone" -j 2
  make -s -C "$work/repository" -j 2
  [[ $("$mount/clone/program") == $("$work/repository/program") ]] || fail "the built program gives a wrong result"
  git -C "$mount/clone" fsck --strict
  [[ -z $(git -C "$mount/clone" status --porcelain -uno) ]] || fail "the clone is not clean"
  step "filled in $((SECONDS - start)) s"
}

# fill_and_find VAULT MOUNT MOUNT-OPTION...: fills the vault, unmounts it, calls between_mounts,
# mounts it again and compares.
fill_and_find() {
  local vault=$1 mount=$2
  shift 2
  s3oramfs mount "$@" "$vault" "$mount"
  is_mounted "$mount" || fail "mount returned, but nothing is mounted"
  s3oramfs status --json "$vault" | grep '"mounted": true' > /dev/null || fail "status knows of no mount"
  fill "$mount"
  s3oramfs status "$vault"
  snapshot "$mount" > "$work/before"
  step "unmounting"
  s3oramfs umount "$mount"
  ! is_mounted "$mount" || fail "umount returned, but the vault is still mounted"
  wait_until "all processes of the vault have ended" no_processes_of "$vault"
  [[ ! -s $vault/vault.db-wal ]] || fail "vault.db alone is not the whole state"
  between_mounts
  step "mounting again"
  s3oramfs mount "$@" "$vault" "$mount"
  snapshot "$mount" > "$work/after"
  same "$work/before" "$work/after" "something changed between two mounts"
  git -C "$mount/clone" fsck --strict
  s3oramfs umount "$vault" # this time by the vault's name
  wait_until "all processes of the vault have ended" no_processes_of "$vault"
  step "$(wc -l < "$work/after") lines compared equal"
}

answers_on() { (exec 3<> "/dev/tcp/$host/$1") 2> /dev/null; }
# free_port NAME: sets NAME to a port on which nobody listens, a different one each time.
last_port=$((20000 + RANDOM % 10000))
free_port() {
  while answers_on $((++last_port)); do :; done
  printf -v "$1" %d "$last_port"
}

# Options of init that keep it from measuring: that takes time, and the load of this machine must not
# choose the volume's numbers.
fixed_lines=(--line 10000/10000 --between 10000)
# make_servers NAME [COUNT]: makes the stores $work/NAME1..3, which know each other. Fills the
# arrays server_port, server_key and server_options (for init; fixed_lines come last).
make_servers() {
  local name=$1 n peers=()
  server_port=() server_key=() server_options=() server_name=$name server_count=${2:-3}
  for ((n = 1; n <= server_count; ++n)); do
    mkdir -p -m 700 "$work/$name$n"
    free_port "server_port[$n]"
    server_key[n]=$(serverd keygen --store "$work/$name$n" | grep -oE '[A-Za-z0-9_-]{43}' | tail -n 1)
    server_options+=(--server "$host:${server_port[n]},${server_key[n]}")
  done
  server_options+=("${fixed_lines[@]}")
  for ((n = 1; n <= server_count; ++n)); do peers+=("$n=$host:${server_port[n]},${server_key[n]}"); done
  for ((n = 1; n <= server_count; ++n)); do serverd peers --store "$work/$name$n" "${peers[@]}"; done
}
# If there is a listen_port for the server, the server listens there, behind a link. `starter` is
# put before the program; `server_more` are further options.
start_server() {
  local port=${listen_port[$1]:-${server_port[$1]}}
  # Starts the program by its path, because $! of a function would be the shell around it.
  "${starter[@]}" "$bin/s3oramfs-serverd" --store "$work/$server_name$1" --index "$1" \
    --listen "$host:$port" "${server_more[@]}" >> "$work/$server_name$1.log" 2>&1 &
  server_pid[$server_name$1]=$!
  wait_until "server $1 listens" answers_on "$port"
}
# Stops the server by SIGTERM, after which it must end without an error.
stop_server() {
  local code=0
  kill -TERM "${server_pid[$server_name$1]}"
  wait "${server_pid[$server_name$1]}" || code=$?
  [[ $code == 0 ]] || fail "server $1 ended with $code"
  unset "server_pid[$server_name$1]"
}
start_servers() { for ((n = 1; n <= server_count; ++n)); do start_server "$n"; done; }
stop_servers() { for ((n = 1; n <= server_count; ++n)); do stop_server "$n"; done; }
# authorize KEY: admits the key at all servers, which run and are told to read their keys again.
authorize() {
  for ((n = 1; n <= server_count; ++n)); do
    serverd authorize --store "$work/$server_name$n" "$1"
    kill -HUP "${server_pid[$server_name$n]}"
  done
}
# The key that init shows when a server refuses it.
shown_key() { grep -oE -- '--store DIR [A-Za-z0-9_-]{43}' | cut -d ' ' -f 3; }
