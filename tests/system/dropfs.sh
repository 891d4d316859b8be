# shellcheck shell=bash
# Tests the test file system that loses everything that was not synced: a program that forgets a
# sync loses data on it, and a program that syncs does not.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/faults.sh
. "$(dirname "$0")/faults.sh"
need_fuse

disk=$work/disk
make_disk "$disk"
content() { [[ $(< "$1") == "$2" ]] || fail "$1 holds \"$(< "$1")\" instead of \"$2\""; }
absent() { [[ ! -e $1 ]] || fail "$1 is there"; }

step "a file: its data and its name are synced apart"
echo old > "$disk/both"
sync "$disk/both" "$disk"
echo data > "$disk/data-only"
sync "$disk/data-only"
power_cut "$disk"
content "$disk/both" old
absent "$disk/data-only"
echo name > "$disk/name-only"
sync "$disk"
power_cut "$disk"
[[ -e $disk/name-only && ! -s $disk/name-only ]] || fail "data survived without a sync"

step "an overwrite, a longer file, a shorter one"
echo new > "$disk/both"
power_cut "$disk"
content "$disk/both" old
echo more >> "$disk/both"
power_cut "$disk"
content "$disk/both" old
truncate -s 1 "$disk/both"
power_cut "$disk"
content "$disk/both" old
echo new > "$disk/both"
sync "$disk/both"
power_cut "$disk"
content "$disk/both" new

step "renames and removals"
mkdir "$disk/d"
echo inner > "$disk/d/file"
sync "$disk/d/file" "$disk/d" "$disk"
mv "$disk/d/file" "$disk/d/moved"
power_cut "$disk"
content "$disk/d/file" inner
absent "$disk/d/moved"
mv "$disk/d/file" "$disk/d/moved"
sync "$disk/d"
rm "$disk/d/moved"
power_cut "$disk"
content "$disk/d/moved" inner
absent "$disk/d/file"
rm "$disk/d/moved"
sync "$disk/d"
power_cut "$disk"
absent "$disk/d/moved"
rmdir "$disk/d"
power_cut "$disk" all
absent "$disk/d"

step "the power goes at a chosen sync"
tell "$disk" freeze 2
(
  echo one > "$disk/one"
  sync "$disk/one" "$disk"
  echo late > "$disk/late"
) 2> "$work/late.log" &
writer=$!
wait_until "the disk is frozen" power_is "$disk" frozen
tell "$disk" off
! wait "$writer" || fail "a writer did not notice that the power was off"
tell "$disk" on all
content "$disk/one" one
absent "$disk/late"

step "pieces are kept, dropped or torn"
head -c 400K /dev/zero | tr '\0' A > "$work/old"
head -c 400K /dev/zero | tr '\0' B > "$work/new"
cp "$work/old" "$disk/pieces"
sync "$disk/pieces" "$disk"
cp "$work/new" "$disk/pieces" # the same size: truncated and written again
power_cut "$disk" random 1
pieces() { fold -b -w "$1" "$disk/pieces" | sort | uniq -c; }
[[ $(stat -c %s "$disk/pieces") == 409600 ]] || fail "the size is neither the old nor the new one"
(($(pieces 4096 | wc -l) > 3)) || fail "no piece is torn"
(($(pieces 512 | wc -l) == 2)) || fail "a sector is torn"
pieces 4096 | grep "$(head -c 4096 "$work/new")" > "$work/found" || fail "no piece is kept"
pieces 4096 | grep "$(head -c 4096 "$work/old")" > "$work/found" || fail "no piece is dropped"

step "a full disk"
tell "$disk" space 1000000
code=0
head -c 2M /dev/zero > "$disk/large" 2> "$work/full.log" || code=$?
((code != 0)) || fail "2 MB fit on a disk of 1 MB"
(($(stat -f -c %f "$disk") == 0)) || fail "a full disk has room"
rm "$disk/large"
sync "$disk"
head -c 100K /dev/zero > "$disk/small"
code=0
fallocate -l 2M "$disk/allocated" 2> "$work/full.log" || code=$?
((code != 0)) || fail "2 MB were promised on a disk of 1 MB"
tell "$disk" space 100000000
fallocate -l 2M "$disk/allocated"

step "a database in WAL mode"
commit() { sqlite3 "$disk/db" "PRAGMA journal_mode=WAL; PRAGMA synchronous=$1; $2" > /dev/null; }
commit FULL 'CREATE TABLE t(x);'
sync "$disk"
for i in {1..20}; do
  commit FULL "INSERT INTO t VALUES($i);"
  power_cut "$disk" random "$i"
  [[ $(sqlite3 "$disk/db" 'SELECT count(*), max(x) FROM t; PRAGMA integrity_check') == "$i|$i"$'\n'ok ]] ||
    fail "transaction $i is lost"
done
commit OFF "INSERT INTO t VALUES(100);"
power_cut "$disk"
[[ $(sqlite3 "$disk/db" 'SELECT max(x) FROM t') == 20 ]] || fail "a transaction without a sync survived"
