# shellcheck shell=bash
# Damage to a vault's own files affects only the file it belongs to. fsck names that file, mends it,
# and changes nothing else. A read-only mount changes none of the vault's files.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

tools=$(realpath "$2")
mount=$work/mount
vault=$work/vault
mkdir "$mount"
s3oramfs init --local --no-passphrase --block-size 4K "$vault"
mount_vault() { s3oramfs mount "$@" "$vault" "$mount"; }
umount_vault() {
  s3oramfs umount "$mount"
  wait_until "all processes of the vault have ended" no_processes_of "$vault"
}
# sql STATEMENT: runs the statement on the vault's database while nobody has it open.
sql() { "$tools/vault_sql" "$vault" "$1" > "$work/sql.out" || fail "SQL: $1"; }
# The tables of the files.
tables() {
  "$tools/vault_sql" "$vault" \
    'SELECT * FROM inodes; SELECT * FROM dentries; SELECT * FROM extents; SELECT * FROM xattrs'
}

step "a sound vault"
s3oramfs fsck "$vault" # the vault was never mounted
mount_vault
make_tree "$mount/tree" 200 2000000
for name in lost shared other mode nameless; do head -c 20000 /dev/urandom > "$mount/$name"; done
mkdir "$mount/directory"
for name in lost shared other mode nameless directory; do
  declare "ino_$name=$(stat -c %i "$mount/$name")"
done
snapshot "$mount/tree" > "$work/tree.before"
cp "$mount/lost" "$mount/nameless" "$work"
umount_vault
s3oramfs fsck "$vault"
[[ ! -e $vault/vault.db.before-fsck ]] || fail "fsck changed a sound vault"

step "a read-only mount"
tables > "$work/tables.before"
mount_vault -o ro
snapshot "$mount/tree" > "$work/tree.now"
same "$work/tree.before" "$work/tree.now" "a read-only mount shows something else"
cmp "$work/lost" "$mount/lost"
! touch "$mount/new" 2> /dev/null || fail "a read-only mount was written to"
! rm -f "$mount/lost" 2> /dev/null || fail "a file of a read-only mount was removed"
expect 20 "read-only" s3oramfs backup "$vault"
expect 20 "read-only" s3oramfs backup "$mount"
expect 13 "$vault is already mounted" s3oramfs fsck "$mount"
expect 11 "is inside $mount" s3oramfs backup "$mount/tree"
expect 0 "backup    of everything" s3oramfs status "$vault"
umount_vault
tables > "$work/tables.now"
same "$work/tables.before" "$work/tables.now" "a read-only mount changed the files"

for other in 2 1.former; do
  step "at server 1, the slots of $other"
  mount_vault
  cp "$vault/servers/1/slots" "$work/1.former"
  head -c 400000 /dev/urandom > "$mount/written since"
  umount_vault
  if [[ $other == 2 ]]; then
    cp "$vault/servers/2/slots" "$vault/servers/1/slots"
  else
    cp "$work/1.former" "$vault/servers/1/slots"
  fi
  expect 18 "server 1 lacks its shares" s3oramfs mount "$vault" "$mount"
  s3oramfs repair --server 1 "$vault"
  mount_vault
  snapshot "$mount/tree" > "$work/tree.now"
  same "$work/tree.before" "$work/tree.now" "what one server has lost is lost"
  umount_vault
  grep -q "was damaged and is healed" "$vault/run/server-1.log" || fail "nothing was healed"
done

step "damage"
# shellcheck disable=SC2154 # declared above
sql "DELETE FROM positions WHERE block = (SELECT block FROM extents WHERE ino = $ino_lost AND idx = 1);
  UPDATE extents SET block = (SELECT block FROM extents WHERE ino = $ino_other AND idx = 2)
    WHERE ino = $ino_shared AND idx = 2;
  UPDATE inodes SET mode = 3 WHERE ino = $ino_mode;
  UPDATE inodes SET nlink = 9 WHERE ino = $ino_directory;
  DELETE FROM dentries WHERE ino = $ino_nameless"
expect 12 "/lost: bytes 4096-8191 are lost" s3oramfs fsck "$vault"
expect 12 '"kind": "shared-block"' s3oramfs fsck --json "$vault"

step "mounting the damaged vault"
generation() { "$tools/vault_sql" "$vault" "SELECT MAX(generation) FROM backups"; }
before=$(generation)
for options in "-o ro" ""; do
  # shellcheck disable=SC2086 # two words or none
  mount_vault $options
  snapshot "$mount/tree" > "$work/tree.now"
  same "$work/tree.before" "$work/tree.now" "files without damage suffered"
  ! cat "$mount/lost" > "$work/read" 2> /dev/null || fail "lost bytes were read"
  cmp -n 4096 "$work/lost" "$mount/lost"
  ! cat "$mount/shared" > "$work/read" 2> /dev/null || fail "bytes of two files were read"
  ! stat "$mount/mode" > "$work/read" 2> /dev/null || fail "a file without a type was found"
  umount_vault
done
[[ $(generation) == "$before" ]] || fail "a backup was made of damaged tables"
# shellcheck disable=SC2154 # declared above
told=$(grep -o "inode .*: its attributes are damaged.*" "$vault/run/fused.log" | sort -u)
[[ $told == "inode $ino_mode: its attributes are damaged: run s3oramfs fsck" ]] ||
  fail "the log says about the unusable file: ${told:-nothing}"

step "repair"
known_to_backup() { "$tools/vault_sql" "$vault" "SELECT COUNT(*) FROM fs_state WHERE name = 'backed_up'"; }
sql "INSERT OR REPLACE INTO fs_state SELECT 'backed_up', MAX(generation) FROM backups"
[[ $(known_to_backup) == 1 ]] || fail "the last backup has another state"
s3oramfs fsck --repair "$vault"
[[ $(known_to_backup) == 0 ]] || fail "the last backup is said to hold what fsck has mended"
s3oramfs fsck "$vault"
mount_vault
snapshot "$mount/tree" > "$work/tree.now"
same "$work/tree.before" "$work/tree.now" "the repair changed other files"
cmp "$work/nameless" "$mount/lost+found/#$ino_nameless"
cmp <(head -c 4096 "$work/lost" && head -c 4096 /dev/zero && tail -c +8193 "$work/lost") "$mount/lost"
[[ $(stat -c %h "$mount/directory") == 2 ]] || fail "a link count is wrong"
umount_vault

step "a damaged database file"
# SQLite says which page belongs to which table; the page of the names is not the first.
page=$("$tools/vault_sql" "$vault" "SELECT rootpage FROM sqlite_master WHERE name = 'orphans'")
sql "PRAGMA wal_checkpoint(TRUNCATE)"
head -c 4096 /dev/urandom |
  dd of="$vault/vault.db" bs=4096 seek=$((page - 1)) conv=notrunc status=none
expect 12 "damaged" s3oramfs fsck "$vault"
s3oramfs fsck --repair "$vault"
s3oramfs fsck "$vault"
mount_vault
snapshot "$mount/tree" > "$work/tree.now"
same "$work/tree.before" "$work/tree.now" "the new database holds something else"
umount_vault

step "a damaged store of a server"
head -c 100 /dev/urandom | dd of="$vault/servers/2/control.db" conv=notrunc status=none
expect 12 "run s3oramfs repair --server 2 $vault" s3oramfs mount "$vault" "$mount"
! s3oramfs mount "$vault" "$mount" 2> "$work/said" || fail "it was mounted"
! grep -q "fsck" "$work/said" || fail "advice for a damaged vault.db: $(< "$work/said")"
mkdir "$work/away"
mv "$vault"/servers/2/{control.db*,slots} "$work/away"
s3oramfs repair --server 2 "$vault"
mount_vault
snapshot "$mount/tree" > "$work/tree.now"
same "$work/tree.before" "$work/tree.now" "the repair changed files"
umount_vault
