# shellcheck shell=bash
# Programs that see the mount in an unusual way: 32-bit programs, programs that keep file handles as
# NFS servers do, and programs in a user namespace, as in a rootless container.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

((EUID == 0)) || fail "this test opens files by their handles and is another user: run it as root"
vault=$work/vault mount=$work/mount
mkdir "$mount"
s3oramfs init --local --no-passphrase "$vault"
s3oramfs mount "$vault" "$mount"

step "32-bit programs"
cat > "$work/list.c" << 'C'
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
int main(int count, char** words) {
  DIR* directory = opendir(words[count - 1]);
  int names = 0;
  if (!directory) return perror(words[count - 1]), 2;
  for (errno = 0; readdir(directory); errno = 0) {
    const long position = telldir(directory);
    seekdir(directory, position);
    ++names;
  }
  if (errno) return perror("readdir"), 1;
  struct stat attributes;
  if (stat(words[count - 1], &attributes)) return perror("stat"), 1;
  return printf("%d\n", names) < 0;
}
C
# The headers are named because gcc-multilib, which would find them, conflicts with the compilers
# for other machines.
gcc -m32 -idirafter /usr/include/x86_64-linux-gnu -o "$work/list" "$work/list.c"
mkdir "$mount/many"
(cd "$mount/many" && seq -f 'name %g' 2000 | xargs -d '\n' touch)
[[ $("$work/list" "$mount/many") == 2002 ]] || fail "a 32-bit program does not list all files"

step "files that the kernel has forgotten are found by their handles"
mkdir -p "$mount/a/b"
echo text > "$mount/a/b/file"
inode=$(stat -c %i "$mount/a/b/file")
sync -f "$mount"
echo 2 > /proc/sys/vm/drop_caches
[[ $(stat -c %i "$mount/a/b/file") == "$inode" ]] || fail "the inode number changes"
s3oramfs umount "$mount"
s3oramfs mount "$vault" "$mount"
[[ $(stat -c %i "$mount/a/b/file") == "$inode" ]] || fail "the inode number changes with a mount"
rm -r "$mount/a"
s3oramfs umount "$mount"
s3oramfs mount "$vault" "$mount"
touch "$mount/new"
(($(stat -c %i "$mount/new") > inode)) || fail "a number is given twice"
s3oramfs umount "$mount"

step "in a user namespace"
user=s3oworlds$$
useradd --system --no-create-home --shell /usr/sbin/nologin "$user"
cleanup_more() { userdel "$user"; }
mkdir "$work/bin" "$work/home"
cp -a "$bin"/s3oramfs* "$work/bin/"
chmod 755 "$work"
chown "$user" "$work/home"
export -f leave_others_mounts
unshare --mount --propagation private bash -euc '
  leave_others_mounts
  mkdir "$1/dev"
  mount -t tmpfs none "$1/dev"
  mknod -m 666 "$1/dev/fuse" c 10 229
  mount --bind "$1/dev/fuse" /dev/fuse
  exec runuser -u "$2" -- env PATH="$1/bin:$PATH" bash -euxc "
    cd \"\$1\"
    mkdir mount plain
    s3oramfs init --local --no-passphrase vault > /dev/null
    s3oramfs mount vault mount
    touch mount/outside
    s3oramfs umount mount
    unshare --user --map-root-user --mount bash -euxc \"
      s3oramfs mount vault mount
      touch mount/inside plain/inside
      [[ \\\$(stat -c %u:%g mount/outside) == 0:0 ]]
      [[ \\\$(stat -c %u:%g mount/inside) == 0:0 ]]
      ! chown 1 mount/inside
      chmod 600 mount/outside
      s3oramfs umount mount\"
    s3oramfs mount vault mount
    [[ \$(stat -c %u:%g mount/inside) == \$(stat -c %u:%g plain/inside) ]]
    [[ \$(stat -c %U:%a mount/outside) == \$(id -un):600 ]]
    s3oramfs umount mount" inside "$1/home"' namespace "$work" "$user" > "$work/namespace.log" 2>&1 ||
  fail "$(< "$work/namespace.log")"
