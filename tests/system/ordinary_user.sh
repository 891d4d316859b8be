# shellcheck shell=bash
# An ordinary user mounts through fusermount3. If root runs this, it makes a user for it.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

if ((EUID != 0)); then
  mkdir "$work/mount"
  TREE_FILES=300 TREE_BYTES=5000000 RANDOM_MIB=5
  s3oramfs init --local --no-passphrase "$work/vault"
  between_mounts() { :; }
  fill_and_find "$work/vault" "$work/mount"
  s3oramfs mount "$work/vault" "$work/mount"
  (
    cd "$work/mount"
    expect 17 "in use" s3oramfs umount "$work/mount"
    s3oramfs umount --lazy "$work/mount"
  )
  wait_until "the lazy umount is over" no_processes_of "$work/vault"
  exit
fi

user=s3otest$$
useradd --system --no-create-home --shell /usr/sbin/nologin "$user"
cleanup_more() { userdel "$user"; }
# The checkout may be in a place that the user cannot reach.
mkdir "$work/bin" "$work/tests" "$work/home"
cp -a "$bin"/s3oramfs* "$work/bin/"
cp -a "$(dirname "$0")"/*.sh "$work/tests/"
chown "$user" "$work" "$work/home"
run=(runuser -u "$user" -- env TMPDIR="$work/home" bash "$work/tests/ordinary_user.sh" "$work/bin")
if runuser -u "$user" -- test -r /dev/fuse -a -w /dev/fuse; then
  "${run[@]}"
else
  # Debian lets everyone use /dev/fuse. If this machine does not, do so in a mount namespace of this
  # test.
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

step "files that root repairs stay the user's"
own=$work/home/own
runuser -u "$user" -- "$work/bin/s3oramfs" init --local --no-passphrase "$own" > "$work/init.log" 2>&1
rm -r "$own/servers/3"
s3oramfs repair --server 3 "$own"
[[ -z $(find "$own" ! -user "$user") ]] || fail "not the user's: $(find "$own" ! -user "$user")"
runuser -u "$user" -- "$work/bin/s3oramfs" scrub "$own"

step "an unreadable directory is not reported as no vault"
roots=$(mktemp -d /tmp/s3oramfs-test-XXXXXX) # $work is the user's: no vault of root's
s3oramfs init --local --no-passphrase "$roots/vault" > "$work/init.log" 2>&1
expect 1 "Permission denied" runuser -u "$user" -- "$work/bin/s3oramfs" status "$roots/vault"
rm -r "$roots"
