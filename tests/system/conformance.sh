# shellcheck shell=bash
# Compares the mounted file system with the machine's own: a table of cases, random operations on
# both, and random operations on one file's data. SEED may be given. A scheme may be given too;
# because the file system does not know the scheme, one round is then enough, with the table of
# cases for ring. In a mirror, one of three servers is away at first, and catches up meanwhile.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse
tests=$(realpath "$2")
[[ $(id -u) == 0 ]] || fail "this test needs root, because it mounts for all users and acts as some of them"
: "${SEED:=$RANDOM$RANDOM}"

mkdir "$work/mount" "$work/reference"
scheme=${3:-s3oram} of=()
[[ $scheme != mirror ]] || of=(--servers 3)
s3oramfs init --local --scheme "$scheme" "${of[@]}" --no-passphrase "$work/vault"
mount_it() { s3oramfs mount -o allow_other "$work/vault" "$work/mount"; }
mount_it

# fresh_pair NAME: makes two empty directories, in the mount and beside it.
fresh_pair() {
  ours=$work/mount/$1 theirs=$work/reference/$1
  mkdir "$ours" "$theirs"
}

step "the reference is $(stat -f -c %T "$work/reference")"
if [[ $scheme == mirror ]]; then
  kill -9 "$(processes_of "s3oramfs-serverd --store $work/vault/servers/2 ")"
else
  fresh_pair cases
  "$tests/compare_cases" "$ours" "$theirs" || fail "the file systems differ"
fi

step "random operations on both, twice"
seeds=(1 "$SEED") seconds=(3 3) operations=800
[[ $scheme == s3oram ]] || { seeds=("$SEED") seconds=(2); }
[[ $scheme != mirror ]] || operations=250
for i in "${!seeds[@]}"; do
  fresh_pair "random$i"
  "$tests/compare_random" "$ours" "$theirs" --seed "${seeds[i]}" --seconds "${seconds[i]}" ||
    fail "the file systems differ"
done

step "random operations on a file, and between mounts"
cat > "$work/remount.sh" << END
set -e
"$bin/s3oramfs" umount "$work/mount"
"$bin/s3oramfs" mount -o allow_other "$work/vault" "$work/mount"
END
for seed in "${seeds[@]}"; do
  "$tests/exerciser" "$work/mount" --seed "$seed" --operations "$operations" \
    --remount "bash '$work/remount.sh'" || fail "a file is not as it must be"
done

step "the result is the same in the next mount"
with_numbers() {
  snapshot "$1"
  (cd "$1" && find . -printf '%i %p\n' | LC_ALL=C sort)
}
with_numbers "$work/mount/random0" > "$work/before"
s3oramfs umount "$work/mount"
mount_it
with_numbers "$work/mount/random0" > "$work/after"
same "$work/before" "$work/after" "something changed between two mounts"
s3oramfs umount "$work/mount"
wait_until "all processes of the vault have ended" no_processes_of "$work/vault"
