# shellcheck shell=bash
# mount(8), umount(8) and an fstab of the test; key slots. mount(8) finds its helpers only in /sbin,
# and another user must be able to use /dev/fuse. So root runs this in a mount namespace, with a
# copy of /sbin that has the helpers, and a /dev/fuse for everyone.
if [[ ${1:-} != namespace ]]; then
  exec unshare --mount --propagation private bash "$0" namespace "$@"
fi
shift
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse
leave_others_mounts

((EUID == 0)) || fail "this test mounts as mount(8) does: run it as root"
umask 022
vault=$work/vault mount=$work/mount pass=$work/pass table=$work/fstab user=s3omount$$
chmod 755 "$work"
mkdir -m 755 "$work/bin" "$work/sbin" "$mount"
# The checkout may be in a place that the user cannot reach, and helpers find their program through
# a link.
cp -a "$bin"/s3oramfs* "$work/bin/"
bin=$work/bin
cp -a /usr/sbin/. "$work/sbin/"
for helper in mount.s3oramfs mount.fuse.s3oramfs umount.fuse.s3oramfs; do
  ln -sf "$bin/s3oramfs" "$work/sbin/$helper"
done
mount --bind "$work/sbin" /usr/sbin
mkdir "$work/dev"
mount -t tmpfs none "$work/dev"
mknod -m 666 "$work/dev/fuse" c 10 229
mount --bind "$work/dev/fuse" /dev/fuse
mkdir -p /run/mount
mount -t tmpfs none /run/mount # keeps mount(8)'s notes about these tests off the machine
useradd --system --create-home --home-dir "$work/home" --shell /bin/sh "$user"
cleanup_more() {
  umount /usr/sbin # the copy is gone, and userdel with it
  userdel "$user"
}
as_user() { runuser -u "$user" -- "$@"; }

# The state when umount(8) returns: the vault is closed.
closed() {
  ! is_mounted "$mount" || fail "still mounted"
  flock -n "$vault/lock" true || fail "umount returned before the vault was closed"
}
in_table() { printf '%s %s s3oramfs %s 0 0\n' "$vault" "$mount" "$1" > "$table"; }
of_cache() { s3oramfs status --json "$vault" | sed -n '/^  "cache"/,/}/s/^    "'"$1"'": \([0-9]*\).*/\1/p'; }
options_of() { findmnt -n -o OPTIONS "$mount"; }

(umask 077 && echo right > "$pass" && echo second > "$work/second")
s3oramfs init --local --passfile "$pass" --block-size 4K "$vault" > /dev/null
# Used where it does not matter what opens the vault, because a passphrase takes a second.
s3oramfs passwd --add --passfile "$pass" --new-keyfile "$work/key" "$vault"

step "mount -t"
expect 1 "nonsense" mount -t s3oramfs -o nonsense "$vault" "$mount"
expect 1 "remount" "$work/sbin/mount.s3oramfs" "$vault" "$mount" -o remount,ro
expect 1 "cache" mount -t s3oramfs -o cache=1 "$vault" "$mount"
expect 32 "$work/none" mount -t s3oramfs -o passfile="$work/none" "$vault" "$mount"
expect 32 "wrong passphrase" mount -t s3oramfs -o passfile="$work/second" "$vault" "$mount"
expect 32 "$work/home" mount -t s3oramfs -o passfile="$pass" "$work/home" "$mount"
expect 1 "terminal" setsid mount -t s3oramfs "$vault" "$mount"
wait_until "all its processes have ended" no_processes_of "$vault"
mount -f -t s3oramfs -o keyfile="$work/key" "$vault" "$mount"
closed
mount -s -t s3oramfs -o keyfile="$work/key",nonsense,ro,rw,noexec,cache=16M,log-level=debug "$vault" "$mount"
[[ $(options_of) == *noexec* && $(options_of) == rw* ]] || fail "mounted with $(options_of)"
[[ $(of_cache limit) == $((16 << 20)) ]] || fail "cache=16M is a limit of $(of_cache limit) bytes"
expect 32 "already mounted at $mount" mount -t s3oramfs -o keyfile="$work/key" "$vault" "$work/dev"
expect 32 "is taken: the vault $vault" mount -t s3oramfs -o keyfile="$work/key" "$vault" "$mount"
expect 1 "remount" mount -o remount,ro "$mount"
head -c 5M /dev/urandom > "$work/random"
cp "$work/random" "$mount/random"
umount "$mount"
closed
! grep -sqF "$mount" /run/mount/utab || fail "umount(8) has kept a note of the mount"
s3oramfs mount --keyfile "$work/key" "$vault" "$mount"
head -c 5M /dev/urandom >> "$mount/more"
umount "$mount" # no matter who has mounted it
closed
s3oramfs mount --keyfile "$work/key" "$vault" "$mount"
s3oramfs umount "$mount"
! grep -sqF "$mount" /run/mount/utab || fail "umount(8) has a note that nobody will remove"

step "/etc/fstab"
in_table "noauto,user,nofail,_netdev,noatime,x-systemd.automount,comment=x,nodiratime,passfile=$pass"
mount -a -T "$table"
closed
mount -T "$table" "$mount"
cmp "$work/random" "$mount/random"
[[ $(options_of) == *noatime* && $(options_of) == *nosuid* ]] || fail "mounted with $(options_of)"
umount "$mount"
closed
in_table "ro,relatime,timeout=30,passprog=cat\\040$pass"
mount -a -T "$table"
mount -a -T "$table" # it knows that the vault is mounted
[[ $(options_of) == ro* ]] || fail "mounted with $(options_of)"
expect 1 "Read-only" touch "$mount/new"

umount "$mount"
closed

step "busy, stopped, dead"
mount -o keyfile="$work/key" -t s3oramfs "$vault" "$mount"
mkdir "$mount/inner"
mount -t tmpfs none "$mount/inner"
for option in "" --lazy; do
  # shellcheck disable=SC2086 # a word or none
  expect 17 "mounted in it, at $mount/inner" s3oramfs umount $option "$mount"
done
umount "$mount/inner"
rmdir "$mount/inner"
umount "$mount"
in_table "keyfile=$work/key"
mount -T "$table" "$mount"
exec 3< "$mount/random"
expect 32 "in use" umount "$mount"
is_mounted "$mount" || fail "a busy mount is gone"
umount -l "$mount"
[[ $(s3oramfs status "$vault") == *"not visible here"* ]] || fail "status calls a detached mount an ordinary one"
expect 13 "umount --lazy" s3oramfs umount "$vault"
exec 3<&-
wait_until "the lazy umount is over" no_processes_of "$vault"
mount -T "$table" "$mount"
daemon=$(s3oramfs status --json "$vault" | sed -nE 's/^ *"pid": ([0-9]+),?$/\1/p')
s3oramfs init --local --no-passphrase "$work/other.vault" > /dev/null
exec 3< "$mount/random" # in use, until the daemon is dead
sleep infinity <&3 &
uses=$!
exec 3<&-
kill -STOP "$daemon"
expect 17 "is taken: the vault $vault" timeout 20 "$bin/s3oramfs" mount "$work/other.vault" "$mount"
kill -9 "$daemon"
wait_until "the servers have ended too" no_processes_of "$vault"
expect 32 "used by sleep (process $uses)" mount -t s3oramfs -o keyfile="$work/key" "$vault" "$mount"
kill "$uses"
ended "$uses" $((128 + 15))
mount -T "$table" "$mount" # in place of the dead mount
cmp "$work/random" "$mount/random"
[[ $(grep -cF " $mount " /proc/self/mountinfo) == 1 ]] || fail "the dead mount is still there"
umount "$mount"
closed

step "a mount point that is not empty"
touch "$mount/in-the-way"
expect 32 "nonempty" mount -T "$table" "$mount"
expect 17 "nonempty" s3oramfs mount --keyfile "$work/key" "$vault" "$mount"
in_table "keyfile=$work/key,nonempty"
mount -T "$table" "$mount"
[[ ! -e $mount/in-the-way ]] || fail "nothing is mounted"
umount "$mount"
closed
rm "$mount/in-the-way"
in_table "keyfile=$work/key"

step "no /dev/fuse"
without_fuse() {
  unshare -m bash -c 'mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/urandom c 1 9 &&
    exec "$@"' bash "$bin/s3oramfs" mount --keyfile "$work/key" "$vault" "$mount"
}
expect 20 "/dev/fuse is missing: load the module" without_fuse

step "a daemon that hangs, while a program waits for it"
s3oramfs mount --keyfile "$work/key" "$vault" "$mount"
daemon=$(s3oramfs status --json "$vault" | sed -nE 's/^ *"pid": ([0-9]+),?$/\1/p')
kill -STOP "$daemon"
stat "$mount/waits for the daemon" 2> "$work/said" &
waits=$!
expect 13 "process $daemon (s3oramfs-fused)" s3oramfs umount --force "$mount"
! is_mounted "$mount" || fail "still mounted"
! wait "$waits" || fail "a file was found without a daemon"
kill -9 "$daemon"
wait_until "the servers have ended too" no_processes_of "$vault"

step "systemd's credential"
mkdir "$work/credentials"
cp "$pass" "$work/credentials/s3oramfs.passphrase"
in_table noauto
CREDENTIALS_DIRECTORY=$work/credentials mount -T "$table" "$mount"
umount "$mount"
closed

step "key slots, also of a mounted vault"
s3oramfs mount --keyfile "$work/key" "$vault" "$mount"
[[ $(stat -c %a "$work/key") == 600 ]] || fail "the key file is not private"
s3oramfs passwd --add --keyfile "$work/key" --new-keyfile "$work/other" "$vault"
s3oramfs passwd --keyfile "$work/key" --remove 1 "$vault"
s3oramfs umount "$mount"
[[ $(s3oramfs passwd --list "$vault") == $'slot 2  a key file\nslot 3  a key file' ]] ||
  fail "slots: $(s3oramfs passwd --list "$vault")"
expect 10 "by its key file" s3oramfs mount --passfile "$pass" "$vault" "$mount"
s3oramfs passwd --keyfile "$work/other" --new-passfile "$work/second" "$vault"
expect 10 "not this vault's key file" s3oramfs mount --keyfile "$work/other" "$vault" "$mount"
expect 2 "stays" s3oramfs passwd --keyfile "$work/key" --remove 2 "$vault"
expect 2 "no slot 9" s3oramfs passwd --keyfile "$work/key" --remove 9 "$vault"
s3oramfs passwd --keyfile "$work/key" --remove 3 "$vault"
expect 2 "last" s3oramfs passwd --keyfile "$work/key" --remove 2 "$vault"
expect 10 "key file" s3oramfs passwd --passfile "$pass" --no-passphrase "$vault"
(umask 077 && echo > "$work/empty")
expect 2 "$work/empty" s3oramfs passwd --keyfile "$work/key" --new-passfile "$work/empty" "$vault"
expect 1 "code 4" s3oramfs passwd --passprog "exit 4" --no-passphrase "$vault"
chmod 644 "$work/key"
said=$(s3oramfs passwd --keyfile "$work/key" --new-passfile "$pass" "$vault" 2>&1)
[[ $said == *"chmod 600 $work/key"* ]] || fail "no warning of a key that all can read: $said"

step "another user's vault"
vault=$work/home/vault mount=$work/home/mount
as_user mkdir "$mount"
expect 2 "belongs to the user" s3oramfs init --local --no-passphrase "$mount"
as_user "$bin/s3oramfs" init --local --no-passphrase --block-size 4K "$vault" > /dev/null
expect 1 "there is no user nobody-here" mount -t s3oramfs -o uid=nobody-here "$vault" "$mount"
mount -t s3oramfs "$vault" "$mount"
as_user touch "$mount/mine"
[[ $(as_user stat -c '%U %U' "$mount/mine" "$mount") == "$user $user"$'\n'"$user $user" ]] ||
  fail "the files have the wrong owner"
[[ -z $(find "$vault" ! -user "$user") ]] || fail "not the user's own: $(find "$vault" ! -user "$user")"
for pid in $(processes_of "$vault"); do
  [[ $(awk '/^Uid:/ { print $2, $3, $4 }' "/proc/$pid/status") == "$(id -u "$user") $(id -u "$user") $(id -u "$user")" ]] ||
    fail "a process is not the user's: $(grep Uid: "/proc/$pid/status")"
done
# Whatever only root may use is taken before root's rights are given up
# (fused/kernel/cpu_latency.h).
if grep -qs haltpoll /sys/devices/system/cpu/cpuidle/current_driver && (($(nproc) <= 8)); then
  find "/proc/$(daemon_of "$vault")/fd" -lname /dev/cpu_dma_latency | grep -q . ||
    fail "idle processors may sleep while requests come"
fi
expect 2 "ermission denied" ls "$mount"
expect 32 "is taken" mount -t s3oramfs "$vault" "$mount"
umount "$mount"
closed
mount -t s3oramfs -o allow_other "$vault" "$mount"
[[ -e $mount/mine ]] || fail "allow_other does not let root in"
as_user "$bin/s3oramfs" umount "$mount"
closed
mount -t s3oramfs "$vault" "$mount"
as_user umount "$mount" # the user's mount, although root made it
closed
mount -t s3oramfs "$vault" "$mount"
kill -TERM "$(daemon_of "$vault")"
wait_until "the daemon has ended" no_processes_of "$vault"
closed

# The user mounts without root, as mount(8) allows for a line with "user" in /etc/fstab, here in the
# test's own fstab.
in_table "noauto,user,noatime"
mount --bind "$table" /etc/fstab
as_user mount "$mount"
[[ $(as_user stat -c %U "$mount/mine") == "$user" ]] || fail "the files have the wrong owner"
[[ $(options_of) == *user_id=$(id -u "$user")* && $(options_of) == *noexec* ]] || fail "mounted with $(options_of)"
as_user umount "$mount"
closed
expect 32 "user_allow_other" as_user mount -o allow_other "$mount"
umount /etc/fstab
touch "$mount/in-the-way"
expect 32 "not empty" mount -t s3oramfs "$vault" "$mount"
wait_until "all its processes have ended" no_processes_of "$vault"
rm "$mount/in-the-way"
install -m 755 "$(realpath "$2")/vault_sql" "$work/vault_sql" # where the user can run it
as_user "$work/vault_sql" "$vault" "UPDATE inodes SET nlink = 9 WHERE ino = 1"
s3oramfs fsck --repair "$vault" # by root
[[ -e $vault/vault.db.before-fsck ]] || fail "nothing was mended"
s3oramfs passwd --new-keyfile "$work/key" "$vault" # by root
[[ -z $(find "$vault" ! -user "$user") ]] || fail "not the user's own: $(find "$vault" ! -user "$user")"

mv "$vault/lock" "$work/lock"
as_user ln -s "$work/elsewhere" "$vault/lock"
expect 32 "Too many levels" mount -t s3oramfs "$vault" "$mount"
[[ ! -e $work/elsewhere ]] || fail "root follows the user's link"
rm "$vault/lock"
mv "$work/lock" "$vault/lock"
