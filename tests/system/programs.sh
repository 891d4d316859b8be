# shellcheck shell=bash
# Common programs find in a vault what they rely on, and find it again after a remount: SQLite in
# its journal modes, with and without maps, rsync, tar, cp, setfacl, git, find, du and df.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

vault=$work/vault mount=$work/mount here=$work/here
mkdir "$mount" "$here"
s3oramfs init --local --no-passphrase "$vault"
s3oramfs mount -o allow_other "$vault" "$mount"

sql() { sqlite3 -batch -bail "$@" || fail "sqlite3 $*"; }
sum_of() { sql "$1" "SELECT count(*), sum(length(x)), sum(n) FROM t; PRAGMA integrity_check"; }

for mode in delete wal; do
  for map in 0 10000000; do
    step "SQLite, journal mode $mode, $map bytes mapped"
    for where in "$mount" "$here"; do
      rm -f "$where/$mode$map".db*
      sql "$where/$mode$map.db" "
        PRAGMA journal_mode=$mode; PRAGMA mmap_size=$map;
        CREATE TABLE t (n INTEGER PRIMARY KEY, x TEXT);
        BEGIN;
        WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 3000)
          INSERT INTO t SELECT i, printf('%.*c', i % 700, 'x') FROM c;
        COMMIT;
        DELETE FROM t WHERE n % 3 = 0;
        UPDATE t SET x = x || 'y' WHERE n % 5 = 0;
        BEGIN; DELETE FROM t; ROLLBACK;
        VACUUM;" > "$work/sql.out"
    done
    [[ $(sum_of "$mount/$mode$map.db") == "$(sum_of "$here/$mode$map.db")" ]] ||
      fail "SQLite finds other rows: $(sum_of "$mount/$mode$map.db")"
  done
done

step "a tree with everything that a copy must keep"
tree=$here/tree
make_tree "$tree" 150 1500000
ln "$(find "$tree" -type f | sort | head -n 1)" "$tree/hard link"
ln -s nowhere "$tree/broken link"
mkfifo "$tree/pipe"
mkdir -m 1777 "$tree/sticky"
touch -d '1969-07-20 20:17:40.123456789 UTC' "$tree/old"
truncate -s 50M "$tree/sparse" && echo end >> "$tree/sparse"
printf 'x' > "$tree/$(printf 'a name\nof two lines, \xff\xfe')"
setfattr -n user.note -v 'a value' "$tree/old"
chmod 4755 "$tree/old"
# rsync takes times within the same second for equal.
find "$tree" ! -name old -exec touch -h -d '2024-05-06 07:08:09.123456789 UTC' '{}' +
mkdir "$tree/shared"
setfacl -m u:12345:rwx,g:23456:r-x,d:u:12345:rw,d:o::- "$tree/shared"
echo inherited > "$tree/shared/file"
setfacl -m u:0:r,m::rw "$tree/old"
touch -h -d '2024-05-06 07:08:09.123456789 UTC' "$tree/shared" "$tree/shared/file" "$tree"
snapshot "$tree" > "$work/tree.source"
# acls DIRECTORY: prints the access control lists of everything in it.
acls() { (cd "$1" && find . ! -type l -print0 | LC_ALL=C sort -z | xargs -0 getfacl -n -p); }
acls "$tree" > "$work/acls.source"
(($(grep -c '^default:user:12345:rw-' "$work/acls.source") == 1)) || fail "the lists are not set"

step "rsync -aHAX"
rsync -aHAX --sparse "$tree/" "$mount/synced/"
snapshot "$mount/synced" > "$work/tree.synced"
same "$work/tree.source" "$work/tree.synced" "rsync's copy differs"
[[ $(getfattr --absolute-names --only-values -n user.note "$mount/synced/old") == 'a value' ]] || fail "an attribute is lost"
acls "$mount/synced" > "$work/acls.synced"
same "$work/acls.source" "$work/acls.synced" "rsync's copy has other access control lists"
again=$(rsync -aHAX --itemize-changes --checksum "$tree/" "$mount/synced/")
[[ -z $again ]] || fail "rsync finds something to do in a second run: $again"

step "tar, cp"
mkdir "$mount/untarred"
tar -C "$tree" --xattrs --acls -cf - . | tar -C "$mount/untarred" --xattrs --acls -xpf -
acls "$mount/untarred" > "$work/acls.untarred"
same "$work/acls.source" "$work/acls.untarred" "tar's copy has other access control lists"
tar -C "$mount/untarred" -cf "$mount/archive.tar" .
tar -C "$tree" -df "$mount/archive.tar" > "$work/tar.out" || fail "tar: $(head -n 5 "$work/tar.out")"
cp -a --reflink=auto "$mount/synced" "$mount/copied"
snapshot "$mount/copied" > "$work/tree.copied"
same "$work/tree.source" "$work/tree.copied" "the copy of the copy differs"
acls "$mount/copied" > "$work/acls.copied"
same "$work/acls.source" "$work/acls.copied" "the copy of the copy has other access control lists"

step "setfacl, and its effect"
# as COMMAND...: another user, who may not search the folder of this test, runs the command in the
# mount.
as() { (cd "$mount" && setpriv --reuid 12345 --regid 34567 --clear-groups "$@"); }
mkdir -m 700 "$mount/lists"
echo secret > "$mount/lists/file"
chmod 600 "$mount/lists/file"
! as cat lists/file 2> "$work/refused" || fail "a stranger reads a file of mode 600"
setfacl -R -m u:12345:rX "$mount/lists"
[[ $(as cat lists/file) == secret ]] || fail "the list gives no right"
! as touch lists/new 2> "$work/refused" || fail "the list gives too much"
chmod g= "$mount/lists/file"
! as cat lists/file 2> "$work/refused" || fail "chmod does not change the mask"
[[ $(getfacl -c -n -p "$mount/lists/file" | grep effective) == *'#effective:---' ]] || fail "getfacl: $(getfacl "$mount/lists/file")"
! as setfacl -b lists/file 2> "$work/refused" || fail "a stranger changes a list"
setfacl -R -b "$mount/lists"
[[ $(ls -ld "$mount/lists") == drwx------\ * ]] || fail "setfacl -b: $(ls -ld "$mount/lists")"

step "find, du, df"
touch "$mount/reference"
echo new > "$mount/synced/newer"
found=$(find "$mount" -newer "$mount/reference" -type f)
[[ $found == "$mount/synced/newer" ]] || fail "find -newer finds: $found"
sync -f "$mount" # the kernel hands over the data that it holds
used=$(du -s --block-size=1 "$mount/synced" | cut -f 1)
real=$(du -s --apparent-size --block-size=1 --exclude=sparse "$mount/synced" | cut -f 1)
((used > real / 2 && used < real * 4)) || fail "du says $used for $real bytes"
df -P "$mount" | awk 'NR == 2 { exit !($2 > 0 && $4 > 0 && $3 * 1024 >= 1000000) }' || fail "$(df -P "$mount")"

step "git"
make_repository "$mount/repository"
for i in {1..8}; do
  echo "// $i" >> "$mount/repository/f$((i % 5 + 1)).cc"
  git -C "$mount/repository" -c user.name=test -c user.email=test@localhost commit -q -a -m "$i"
done
git -C "$mount/repository" gc -q --aggressive --prune=now
git -C "$mount/repository" fsck --strict
make -s -C "$mount/repository" -j 4
git -C "$mount/repository" clean -qfdx
git -C "$mount/repository" checkout -q HEAD~5
[[ -z $(git -C "$mount/repository" status --porcelain) ]] || fail "git sees changes"

step "unmounting and mounting again"
snapshot "$mount" > "$work/before"
acls "$mount" > "$work/acls.before"
s3oramfs umount "$mount"
s3oramfs fsck "$vault" || fail "fsck is not content"
s3oramfs mount "$vault" "$mount"
snapshot "$mount" > "$work/after"
same "$work/before" "$work/after" "something changed between two mounts"
acls "$mount" > "$work/acls.after"
same "$work/acls.before" "$work/acls.after" "access control lists changed between two mounts"
for database in "$mount"/*.db; do
  [[ $(sum_of "$database") == "$(sum_of "$here/${database##*/}")" ]] || fail "$database has other rows"
done
s3oramfs umount "$mount"
