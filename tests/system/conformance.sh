# shellcheck shell=bash
# The mounted file system beside the machine's own: a table of cases, random operations on both, and
# random operations on one file's data. SEED may be given.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse
tests=$(realpath "$2")
[[ $(id -u) == 0 ]] || fail "this test needs root: it mounts for all users, and is some of them"
: "${SEED:=$RANDOM$RANDOM}"

echo 'correct horse battery staple' > "$work/pass"
mkdir "$work/mount" "$work/reference"
s3oramfs init --local --passfile "$work/pass" "$work/vault"
mount_it() { s3oramfs mount -o allow_other --passfile "$work/pass" "$work/vault" "$work/mount"; }
mount_it

# fresh_pair NAME: two empty directories, in the mount and beside it.
fresh_pair() {
  ours=$work/mount/$1 theirs=$work/reference/$1
  mkdir "$ours" "$theirs"
}

step "the reference is $(stat -f -c %T "$work/reference")"
fresh_pair cases
"$tests/compare_cases" "$ours" "$theirs" || fail "the file systems differ"

step "random operations on both, twice"
fresh_pair fixed
"$tests/compare_random" "$ours" "$theirs" --seed 1 --seconds 6 || fail "the file systems differ"
fresh_pair random
"$tests/compare_random" "$ours" "$theirs" --seed "$SEED" --seconds 4 ||
  fail "the file systems differ"

step "random operations on a file, and between mounts"
cat > "$work/remount.sh" << END
set -e
"$bin/s3oramfs" umount "$work/mount"
"$bin/s3oramfs" mount -o allow_other --passfile "$work/pass" "$work/vault" "$work/mount"
END
for seed in 1 "$SEED"; do
  "$tests/exerciser" "$work/mount" --seed "$seed" --operations 800 \
    --remount "bash '$work/remount.sh'" || fail "a file is not as it must be"
done

step "what is left is the same in the next mount"
with_numbers() {
  snapshot "$1"
  (cd "$1" && find . -printf '%i %p\n' | LC_ALL=C sort)
}
with_numbers "$work/mount/random" > "$work/before"
s3oramfs umount "$work/mount"
mount_it
with_numbers "$work/mount/random" > "$work/after"
same "$work/before" "$work/after" "something changed between two mounts"
s3oramfs umount "$work/mount"
wait_until "all processes of the vault have ended" no_processes_of "$work/vault"
