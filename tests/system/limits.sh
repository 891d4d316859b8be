# shellcheck shell=bash
# Limits on resources that a shell or a service hands on. Each is raised, handled, or refused with a
# message when a vault is mounted. No limit ends a program by a signal, and none loses a byte.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

vault=$work/vault mount=$work/mount
# Evaluates "$@", which sets limits, and checks that the vault works as usual and has the data of
# the previous call.
use_under() {
  step "works: $*"
  (eval "$*" && exec "$bin/s3oramfs" mount "$vault" "$mount") || fail "not mounted under $*"
  [[ ! -e $work/data ]] || cmp "$work/data" "$mount/data" || fail "lost before $*"
  head -c 300K /dev/urandom > "$work/data"
  cp "$work/data" "$mount/data" && sync "$mount/data" || fail "cannot be written under $*"
  s3oramfs status --check "$vault" > "$work/check" || fail "not healthy under $*"
  s3oramfs umount "$mount"
}
# refused_under WORDS COMMAND...: the mount ends with code 20 and these words, and leaves nothing
# behind.
refused_under() {
  step "refused: ${*:2}"
  expect 20 "$1" bash -c "${*:2}"' && exec "$0" mount "$1" "$2"' "$bin/s3oramfs" "$vault" "$mount"
  ! is_mounted "$mount" || fail "refused, but mounted under ${*:2}"
  wait_until "no process runs" no_processes_of "$vault"
}
no_signals() { ! grep -E 'ended by itself \(signal' "$vault/run/fused.log" || fail "a server was ended"; }

as_root() {
  mkdir "$mount"
  s3oramfs init --local --no-passphrase "$vault"

  use_under ulimit -S -f 20000
  refused_under 'the limit of file sizes is' ulimit -f 20000
  refused_under 'ulimit -f, LimitFSIZE=' ulimit -f 20000
  use_under ulimit -S -n 20
  refused_under 'the limit of open files is 100, and at least' ulimit -n 100
  for size in 100000 200000 300000 400000; do
    refused_under 'the limit of address space is' ulimit -v $size
  done
  refused_under 'the limit of address space is' ulimit -d 100000
  use_under ulimit -v 540000
  use_under ulimit -v 3000000
  use_under ulimit -d 2000000
  for stack in 256 8192 1000000 unlimited; do use_under ulimit -s $stack; done
  use_under ulimit -l 0
  use_under ulimit -t 500
  use_under ulimit -c unlimited
  use_under umask 0777
  use_under unset TMPDIR
  use_under export TMPDIR=/nonexistent
  use_under exec '<&-' '>&-' '2>&-'
  use_under true
  no_signals

  step "init under umask 0777"
  (umask 0777 && s3oramfs init --local --no-passphrase "$work/masked") > "$work/init.log"
  s3oramfs mount "$work/masked" "$mount"
  s3oramfs umount "$mount"

  step "processor time runs out: the mount ends cleanly"
  (ulimit -t 22 && s3oramfs mount "$vault" "$mount")
  head -c 1M /dev/urandom > "$work/last"
  cp "$work/last" "$mount/last"
  kill -XCPU "$(daemon_of "$vault")"
  wait_until "the daemon has ended" no_processes_of "$vault"
  s3oramfs mount "$vault" "$mount"
  cmp "$work/last" "$mount/last" || fail "data written before is lost"
  s3oramfs umount "$mount"

  step "a limit on file size: like a full disk, nothing is lost"
  (ulimit -f 200000 && s3oramfs mount "$vault" "$mount") # KiB
  wrote=0
  while head -c 2M /dev/urandom > "$work/piece" && cp "$work/piece" "$mount/piece$wrote" 2> "$work/said" &&
    sync "$mount/piece$wrote" 2> "$work/said"; do
    cp "$work/piece" "$work/kept$wrote"
    ((++wrote < 100)) || fail "200 MB fit into files of 200 MB"
  done
  grep -q 'No space left' "$work/said" || fail "the log says instead: $(< "$work/said")"
  step "$wrote pieces of 2 MiB"
  ((wrote > 0)) || fail "nothing could be written"
  grep -q 'ulimit -f, LimitFSIZE=' "$vault/run/"*.log || fail "no log names the limit"
  rm -f "$mount/piece$wrote"
  s3oramfs umount "$mount" || fail "unwritten data could not be given up"
  no_signals
  s3oramfs mount "$vault" "$mount"
  for ((piece = wrote - 1; piece >= 0; piece -= 3)); do
    cmp "$work/kept$piece" "$mount/piece$piece" || fail "data is lost"
  done
  s3oramfs umount "$mount"
  refused_under 'ulimit -f, LimitFSIZE=' ulimit -f 100000

  step "a remote server"
  make_servers store
  expect 20 'the limit of file sizes is' bash -c 'ulimit -f 1000 && exec "$0" "$@"' \
    "$bin/s3oramfs-serverd" --store "$work/store1" --index 1 --listen "$host:${server_port[1]}"
}

# Runs as a user without other processes, and lowers the limit on their number from what a mount
# needs.
as_user() {
  mkdir "$mount"
  s3oramfs init --local --no-passphrase "$vault"
  s3oramfs mount "$vault" "$mount"
  echo first > "$mount/f"
  s3oramfs status "$vault" > "$work/status"
  needed=0
  for process in $(processes_of "$vault"); do
    needed=$((needed + $(find "/proc/$process/task" -mindepth 1 -maxdepth 1 | wc -l)))
  done
  s3oramfs umount "$mount"
  step "a mount takes $needed processes and threads"
  ((needed > 50)) || fail "the count is too low"
  local refused=0 mounted=0 code said most
  for most in $((needed + 40)) $((needed + 20)) $((needed + 10)) $((needed + 5)) $((needed + 4)) $((needed + 3)) \
    $((needed + 2)) $((needed + 1)) "$needed" $((needed - 1)) $((needed - 40)) 20 5; do
    code=0
    said=$( (ulimit -u "$most" && exec "$bin/s3oramfs" mount "$vault" "$mount") 2>&1) || code=$?
    step "at most $most: $code $said"
    [[ $said != *terminate* && $said != *signal* && $said != *died* ]] || fail "$said"
    if ((code != 0)); then
      refused=$((refused + 1))
      [[ $said == *"ulimit -u, TasksMax="* ]] || fail "the limit is not named: $said"
      ! is_mounted "$mount" || fail "refused, but mounted"
      wait_until "no process runs" no_processes_of "$vault"
      continue
    fi
    mounted=$((mounted + 1))
    echo "$most" > "$mount/f" && sync "$mount/f" || fail "cannot be written"
    for _ in 1 2 3; do
      (ulimit -u "$most" && exec "$bin/s3oramfs" status --check "$vault") > "$work/check" ||
        fail "status: $(< "$work/check")"
    done
    s3oramfs umount "$mount" || fail "umount: $?"
    ! grep -q 'ended by itself' "$vault/run/fused.log" || fail "a server ended"
  done
  ((refused > 3 && mounted > 3)) || fail "$refused refused, $mounted mounted: the limits show nothing"
}

if ((EUID != 0)); then
  as_user
  exit
fi
as_root
step "as an ordinary user"
user=s3olimit$$
useradd --system --no-create-home --shell /usr/sbin/nologin "$user"
cleanup_more() { userdel "$user"; }
mkdir "$work/bin" "$work/tests" "$work/home"
cp -a "$bin"/s3oramfs* "$work/bin/"
cp -a "$(dirname "$0")"/*.sh "$work/tests/"
chown "$user" "$work" "$work/home"
run=(runuser -u "$user" -- env TMPDIR="$work/home" bash "$work/tests/limits.sh" "$work/bin")
if runuser -u "$user" -- test -r /dev/fuse -a -w /dev/fuse; then
  "${run[@]}"
else
  # Debian lets everyone use /dev/fuse. If this machine does not, do so in a mount namespace.
  export -f leave_others_mounts
  unshare --mount --propagation private bash -euc '
    leave_others_mounts
    mkdir "$1/dev"
    mount -t tmpfs none "$1/dev"
    mknod -m 666 "$1/dev/fuse" c 10 229
    mount --bind "$1/dev/fuse" /dev/fuse
    shift
    exec "$@"' namespace "$work" "${run[@]}"
fi
