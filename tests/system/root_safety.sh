# shellcheck shell=bash
# Obstacles that a local user can put in root's way. Root mounts, checks and mends vaults and uses
# mount points that the user can exchange at any time, and no right of root may reach the user. Runs
# in a mount namespace, with a /dev/fuse for everyone.
if [[ ${1:-} != namespace ]]; then
  exec unshare --mount --propagation private bash "$0" namespace "$@"
fi
shift
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse
leave_others_mounts

((EUID == 0)) || fail "this test is about root: run it as root"
umask 022
user=s3oroot$$ other=nobody pass=$work/pass home=$work/home
chmod 755 "$work"
mkdir -m 755 "$work/bin" "$work/dev" "$work/system" "$work/roots"
cp -a "$bin"/s3oramfs* "$work/bin/" # the checkout may be out of the user's reach
bin=$work/bin
mount -t tmpfs none "$work/dev"
mknod -m 666 "$work/dev/fuse" c 10 229
mount --bind "$work/dev/fuse" /dev/fuse
useradd --system --create-home --home-dir "$home" --shell /bin/sh "$user"
chmod 755 "$home"
cleanup_more() { userdel "$user"; }
as_user() { runuser -u "$user" -- "$@"; }
uid=$(id -u "$user") gid=$(id -g "$user")
(umask 077 && echo secret > "$pass")
server_key=$(serverd keygen --store "$work/roots/keyed" | grep -oE '[A-Za-z0-9_-]{43}' | tail -n 1)

vault=$home/vault mount=$home/mount
as_user mkdir "$mount"
as_user "$bin/s3oramfs" init --local --no-passphrase --block-size 4K "$vault" > /dev/null
cp -a "$vault" "$work/pristine"
fresh_vault() {
  rm -rf "${vault:?}"
  cp -a "$work/pristine" "$vault"
}
s3oramfs init --local --no-passphrase --block-size 4K "$work/roots/vault" > /dev/null

daemon_and_children() {
  local daemon file
  daemon=$(daemon_of "$1")
  echo "$daemon"
  for file in /proc/[0-9]*/status; do
    [[ $(awk '/^PPid:/ { print $2 }' "$file" 2> /dev/null) != "$daemon" ]] || echo "${file//[!0-9]/}"
  done
}
# The commands that root may run on a vault, as words.
on_a_vault() {
  case $1 in
    mount) s3oramfs mount "$2" "$work/system" ;;
    fake) "$bin/mount.s3oramfs" "$2" "$work/system" -f ;;
    list) s3oramfs passwd --list "$2" ;;
    passwd) s3oramfs passwd --new-keyfile "$work/roots/key" "$2" ;;
    backup) s3oramfs backup --keys "$work/roots/keys" "$2" ;;
    repair) s3oramfs repair --server 1 "$2" ;;
    restore) s3oramfs restore --force "$2" ;;
    mend) s3oramfs fsck --repair "$2" ;;
    server) s3oramfs server "$2" 1 "localhost:1,$server_key" ;;
    *) s3oramfs "$1" "$2" ;;
  esac
}
commands="mount fake list passwd backup repair restore mend server fsck status scrub rekey"
ln -s s3oramfs "$bin/mount.s3oramfs"
# all_refuse WORDS VAULT: each command fails, and prints these words.
all_refuse() {
  local command said
  for command in $commands; do
    ! said=$(on_a_vault "$command" "$2" 2>&1) || fail "root's $command of $2 is not refused: $said"
    [[ $said =~ $1 ]] || fail "no word of \"$1\" from $command of $2: $said"
  done
  nothing_of_roots
}
nothing_of_roots() {
  ! is_mounted "$work/system" || fail "a mount of the user's vault is at root's directory"
  [[ -z $(find "$home" -xdev -user root ! -path "$home") ]] || fail "root's: $(find "$home" -xdev -user root)"
  [[ ! -e $work/roots/key && ! -e $work/roots/keys ]] || fail "a file that belongs to root is left behind"
  [[ ! -e $work/victim ]] || fail "root's file is where the user wants it: $(ls -l "$work/victim")"
}

step "a link to a directory that anyone may write to, with a log that leads elsewhere"
mkdir "$work/shared"
mount -t tmpfs -o mode=1777 none "$work/shared" # stands for /dev/shm
as_user sh -c "cp -r $vault/. $work/shared/ && ln -s $work/shared $home/shared &&
  rm -rf $work/shared/run && mkdir -m 700 $work/shared/run && ln -s $work/victim $work/shared/run/fused.log"
all_refuse "does not follow" "$home/shared"
all_refuse "users other than its owner" "$work/shared"
expect 20 "users other than its owner" s3oramfs mount "$work/shared" "$work/system"
as_user rm "$home/shared"

step "a vault with files that its user cannot read, so whoever reads them acts as root"
for file in vault.json vault.key vault.db; do
  fresh_vault
  chmod 000 "$vault/$file"
  for command in $commands; do
    case $file-$command in
      vault.key-fake | vault.key-status | vault.db-fake | vault.db-list | vault.db-passwd) continue ;;
      vault.key-server | vault.db-status | vault.*-rekey | vault.db-server | vault.*-backup) continue ;;
      vault.db-restore) continue ;; # restore makes another vault.db
    esac
    ! said=$(on_a_vault "$command" "$vault" 2>&1) || fail "$command has read $file as root: $said"
  done
  nothing_of_roots
done
fresh_vault

step "links and other files in a vault"
as_user ln -s "$work/roots/vault" "$home/link"
all_refuse "does not follow" "$home/link"
as_user rm "$home/link"
echo "root's" > "$work/roots/file"
cp "$work/roots/file" "$work/roots/as-it-was"
for file in lock vault.db vault.json vault.key run/fused.log run/control.sock servers/1/slots; do
  for kind in link pipe hard root; do
    fresh_vault
    as_user rm -f "$vault/$file"
    case $kind in
      link) as_user ln -s "$work/roots/file" "$vault/$file" ;;
      pipe) as_user mkfifo "$vault/$file" ;;
      hard) ln "$work/roots/file" "$vault/$file" ;; # if the kernel lets users do that
      root) cp "$work/roots/file" "$vault/$file" ;;
    esac
    for command in mount fsck mend list; do
      ! said=$(on_a_vault "$command" "$vault" 2>&1) || fail "$command accepts a $kind as $file: $said"
      [[ $said == *"is root's"* || $said == *"does not belong in a vault"* ||
        $said == *"gone"* || $said == *"not a vault"* ]] ||
        fail "$command of a $kind as $file: $said"
    done
    cmp "$work/roots/file" "$work/roots/as-it-was"
    [[ $(stat -c %u "$work/roots/file") == 0 ]] || fail "root has given its file away"
    rm "$vault/$file"
    nothing_of_roots
  done
done
for directory in run servers servers/1; do
  fresh_vault
  as_user rm -rf "${vault:?}/$directory"
  as_user ln -s "$work/system" "$vault/$directory"
  expect 20 "is root's" s3oramfs mount "$vault" "$work/system"
  [[ -z $(ls -A "$work/system") ]] || fail "something is in root's directory: $(ls -A "$work/system")"
done
fresh_vault
as_user ln -s "$work/victim" "$vault/run/fused.log" # opened as the owner: no such file
expect 1 "fused.log" s3oramfs mount "$vault" "$mount"
fresh_vault
nothing_of_roots

step "the directory is exchanged while root looks"
as_user cp -a "$vault" "$home/spy"
as_user chmod 000 "$home/spy/vault.json"
mkdir "$home/roots-own" # as sudo leaves them behind
# The path is in turn a link to a vault of the user's or of root's, and a directory of either.
# until_stopped COMMANDS: the user runs these again and again, at the same time as this script.
until_stopped() {
  rm -f "$home/stop"
  as_user sh -c "cd $home && until [ -e stop ]; do $1; done" 2> /dev/null &
  exchanger=$!
}
stop_exchanging() {
  touch "$home/stop"
  ended "$exchanger" 0 1 # that of the last command, in whose way this script may have been
  rm -f "$home/stop"
}
until_stopped "ln -s spy name && rm name && ln -s $work/roots/vault name && rm name &&
  mv spy name && mv name spy && mv roots-own name && mv name roots-own"
for ((i = 0; i < 150; ++i)); do
  ! said=$(s3oramfs passwd --list "$home/name" 2>&1) || fail "root read a file that the user put there: $said"
done
stop_exchanging
rm -rf "$home/name" "$home/roots-own" "$home/spy"

step "exchanged mount points"
as_user ln -s "$work/system" "$home/to-system"
expect 17 "does not follow" s3oramfs mount "$vault" "$home/to-system"
mkdir -m 700 "$work/others"
chown "$other" "$work/others"
expect 17 "only at a directory" s3oramfs mount "$vault" "$work/others"
as_user touch "$mount/in-the-way"
expect 17 "not empty" s3oramfs mount "$vault" "$mount"
as_user rm "$mount/in-the-way"
for option in suid dev; do
  expect 2 "root's rights" s3oramfs mount -o "$option" "$vault" "$mount"
done
until_stopped "rmdir point; ln -sT $work/system point; rm point; mkdir point"
for ((i = 0; i < 8; ++i)); do
  allow "0 17" s3oramfs mount "$vault" "$home/point"
  ! is_mounted "$work/system" || fail "the user's vault is mounted at root's directory"
  allow "0 23" s3oramfs umount "$vault"
done
stop_exchanging
wait_until "all its processes have ended" no_processes_of "$vault"
nothing_of_roots

step "root mounts for the user: the owner of the processes"
s3oramfs passwd --new-passfile "$pass" "$vault" # which only root can read
SECRET_OF_ROOT=token s3oramfs mount --passfile "$pass" "$vault" "$mount"
for pid in $(daemon_and_children "$vault"); do
  status=$(< "/proc/$pid/status")
  [[ $status == *$'Uid:\t'"$uid"$'\t'"$uid"$'\t'"$uid"$'\t'"$uid"$'\n'* ]] || fail "process $pid: $status"
  [[ $status == *$'Gid:\t'"$gid"$'\t'"$gid"$'\t'"$gid"$'\t'"$gid"$'\n'* ]] || fail "process $pid: $status"
  for capabilities in CapInh CapPrm CapEff CapAmb; do
    [[ $status =~ $capabilities:$'\t'0+$'\n' ]] || fail "process $pid: $status"
  done
  ! grep -zq SECRET_OF_ROOT "/proc/$pid/environ" || [[ $pid == "$(daemon_of "$vault")" ]] ||
    fail "root's environment is in process $pid"
  [[ $pid == "$(daemon_of "$vault")" || $status == *$'NoNewPrivs:\t1'* ]] || fail "process $pid: $status"
  ! as_user test -r "/proc/$pid/mem" || [[ $pid != "$(daemon_of "$vault")" ]] ||
    fail "the user can look into the daemon, which has read root's file"
done
(($(daemon_and_children "$vault" | wc -l) >= 4)) || fail "the servers do not run"
options=$(findmnt -n -o OPTIONS "$mount")
[[ $options == *nosuid*nodev* && $options == *user_id=$uid* ]] || fail "mounted with $options"
as_user sh -c "echo hello > $mount/file"
[[ $(as_user cat "$mount/file") == hello ]] || fail "the user cannot use it"
s3oramfs status "$vault" > /dev/null
s3oramfs scrub --passfile "$pass" "$vault" > /dev/null
expect 2 "user $uid" s3oramfs bench "$mount"
as_user mv "$mount" "$home/moved" && fail "a mount point was moved"
as_user sh -c "mkdir $home/deep && mkdir $home/deep/point"
s3oramfs umount "$mount"
s3oramfs mount --passfile "$pass" "$vault" "$home/deep/point"
mount -t tmpfs none "$work/system" # root's own
as_user sh -c "mv $home/deep $home/deeper && mkdir $home/deep && ln -s $work/system $home/deep/point"
expect 23 "no vault" s3oramfs umount "$home/deep/point"
is_mounted "$work/system" || fail "root has unmounted the directory behind the user's link"
umount "$work/system"
s3oramfs umount "$vault"
wait_until "all its processes have ended" no_processes_of "$vault"
s3oramfs mount --passfile "$pass" "$vault" "$mount"
kill -TERM "$(daemon_of "$vault")" # the daemon unmounts on its own
wait_until "all its processes have ended" no_processes_of "$vault"
! is_mounted "$mount" || fail "the daemon has left its mount behind"
s3oramfs fsck --passfile "$pass" "$vault" > /dev/null
s3oramfs fsck --repair --passfile "$pass" "$vault" > /dev/null
s3oramfs scrub --passfile "$pass" "$vault" > /dev/null
s3oramfs passwd --passfile "$pass" --new-keyfile "$work/roots/key" "$vault" > /dev/null
[[ $(stat -c '%U %a' "$work/roots/key") == "root 600" ]] || fail "root's key file is not root's"
expect 10 "key file" s3oramfs passwd --passfile "$pass" --new-keyfile "$work/roots/another" "$vault"
[[ ! -e $work/roots/another ]] || fail "the key file of a change that failed is left behind"
s3oramfs mount --keyfile "$work/roots/key" "$vault" "$mount"
s3oramfs umount "$mount"
rm "$work/roots/key"
nothing_of_roots
fresh_vault

step "a false daemon"
# answers PERL: runs this code for every client of the control socket.
answers() {
  as_user perl -MSocket -e '
    $SIG{PIPE} = "IGNORE"; socket(S, AF_UNIX, SOCK_STREAM, 0); chdir shift; unlink "control.sock";
    bind(S, sockaddr_un("control.sock")) or die; listen(S, 8);
    while (accept(C, S)) { next if fork; '"$1"'; exit }' "$vault/run" &
  wait_until "someone listens" test -S "$vault/run/control.sock"
}
no_more_answers() {
  local pid
  for pid in $(processes_of "$vault/run"); do
    kill "$pid" 2> /dev/null || wait_until "process $pid is gone" is_gone "$pid"
  done
  wait
  rm -f "$vault/run/control.sock"
}
ends_in_time() {
  local code=0
  timeout 60 "$bin/s3oramfs" status "$vault" > "$work/said" 2>&1 || code=$?
  ((code != 124)) || fail "status waited forever"
  (($(stat -c %s "$work/said") < 100000)) || fail "status printed too much"
  ! grep -q $'\x1b' "$work/said" || fail "the user can write control characters to root's terminal"
}
answers 'while (print C "x" x 4096) {}'
ends_in_time
no_more_answers
answers 'select(C); $| = 1; while (print C "x") { sleep 1 }'
ends_in_time
no_more_answers
answers 'print C "{\"ok\":true,\"mountpoint\":\"\\u001b[2J\",\"health\":{\"healthy\":false,\"problems\":[\"\\u001b]0;x\\u0007\"]}}\n"'
ends_in_time
no_more_answers
answers 'print C "{\"ok\":false,\"code\":1,\"message\":\"\\u001b[2J\"}\n"'
ends_in_time
no_more_answers

step "root makes vaults"
expect 2 "belongs to the user" s3oramfs init --local --no-passphrase "$home/new"
expect 2 "belongs to the user" s3oramfs init --local --no-passphrase "$home/new/deep"
echo '{}' > "$work/roots/recovery"
expect 2 "belongs to the user" s3oramfs restore --from "$work/roots/recovery" "$home/new"
as_user ln -s "$work/system" "$home/new"
expect 1 "does not follow" s3oramfs init --local --no-passphrase "$home/new"
[[ -z $(ls -A "$work/system") ]] || fail "root made something through the user's link"
cp -a "$work/roots/vault" "$home/roots-vault"
commands="mount list mend status"
vaults_of_roots() {
  ! said=$(on_a_vault "$1" "$home/roots-vault" 2>&1) || fail "$1 takes root's vault from a user's directory"
  [[ $said == *"could put another directory in its place"* ]] || fail "$1: $said"
}
for command in $commands; do vaults_of_roots "$command"; done
rm -rf "$home/roots-vault"

step "root's own vault works as usual"
s3oramfs mount "$work/roots/vault" "$work/system"
echo hello > "$work/system/file"
exec 3< "$work/system/file"
expect 17 "in use" s3oramfs umount "$work/system"
exec 3<&-
s3oramfs umount "$work/system"
ln -s "$work/roots/vault" "$work/roots/link"
s3oramfs mount "$work/roots/link" "$work/system" # a link that root made
[[ $(< "$work/system/file") == hello ]] || fail "the file does not exist"
kill -TERM "$(daemon_of "$work/roots/vault")"
wait_until "all its processes have ended" no_processes_of "$work/roots/vault"
! is_mounted "$work/system" || fail "the daemon has left its mount behind"
