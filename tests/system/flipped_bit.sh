# shellcheck shell=bash
# Bits of vault.db flip, as on a decaying disk. No name disappears without an error, no backup of
# the names is made of such a state, and nothing is lost.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
golden=$(dirname "$(realpath "$0")")/../golden
# shellcheck source=tests/golden/manifest.sh
. "$golden/manifest.sh"
need_fuse

tools=$(realpath "$2")
mount=$work/mount
vault=$work/vault
mkdir "$mount"
mount_vault() { s3oramfs mount "$@" "$vault" "$mount"; }
umount_vault() {
  s3oramfs umount "$mount"
  wait_until "all processes of the vault have ended" no_processes_of "$vault"
}
# holds LIST: the mounted files are those in LIST.
holds() {
  manifest "$mount" > "$work/found"
  same "$1" "$work/found" "what was there does not come back"
}
# put AT BYTES: writes the bytes into vault.db.
put() {
  # shellcheck disable=SC2059 # the format string is the bytes
  printf "$2" | dd of="$vault/vault.db" bs=1 seek="$1" conv=notrunc status=none
}
is_sealed() { [[ $(od -An -tu1 -j 20 -N 1 "$vault/vault.db") -eq 40 ]]; }
says_error() { grep -q "Input/output error" "$work/said" || fail "it says: $(< "$work/said")"; }
# The mounted vault says that it is damaged, and makes no backup.
says_damage() {
  expect 24 "vault.db is damaged" s3oramfs status --check "$vault"
  expect 0 "no newer one is made, because vault.db is damaged" s3oramfs status "$vault"
  s3oramfs status --json "$vault" > "$work/json"
  grep -q '"hindered": true' "$work/json" || fail "the JSON does not say so"
  expect 12 "no backup is made" s3oramfs backup "$vault"
}

# ---- A plain vault.db, as older versions made it.

# Prints what a record's header says about its values: their lengths and types.
name_directory='\x06\x09\x1e\x01\x02\x06directory'
name_pipe='\x06\x01\x14\x01\x02\x06\x02pipe'
list=$golden/v6-shuffle.manifest
unpack() {
  rm -rf "$vault" && mkdir "$vault"
  tar -C "$vault" --strip-components=1 -xpzf "$golden/v6-shuffle.tar.gz"
}
# put_record PATTERN AT BYTES: writes at byte AT of the place where vault.db has the pattern.
put_record() {
  local places
  mapfile -t places < <(LC_ALL=C grep -obUaP "$1" "$vault/vault.db" | cut -d : -f 1)
  ((${#places[@]} > 0)) || fail "vault.db does not have $1"
  for each in "${places[@]}"; do put $((each + $2)) "$3"; done
}
generation() { sqlite3 "$vault/vault.db" "SELECT MAX(generation) FROM backups"; }
damage_type() { put_record "$name_directory" 2 '\x1f'; }
damage_size() { put_record "$name_pipe" 0 '\x0e'; }

for damage in damage_type damage_size; do
  step "a plain vault.db, $damage"
  unpack
  $damage
  mount_vault
  holds "$list"
  grep -q "vault.db was damaged" "$vault/run/fused.log" || fail "the log says nothing"
  [[ -e $vault/vault.db.damaged ]] || fail "there is no copy of the damaged file"
  is_sealed || fail "the mended file is not sealed"
  expect 0 "healthy" s3oramfs status --check "$vault"
  touch "$mount/new"
  s3oramfs backup "$vault"
  umount_vault
  s3oramfs fsck "$vault"
done

step "a plain vault.db that fsck and restore mend"
unpack
damage_type
expect 12 "damaged" s3oramfs fsck "$vault"
s3oramfs fsck --repair "$vault"
damage_size
s3oramfs restore --force "$vault"
is_sealed || fail "the restored file is not sealed"
mount_vault
holds "$list"
s3oramfs backup "$vault"
umount_vault
s3oramfs fsck "$vault"

step "a plain vault.db with more damage than can be mended"
unpack
before=$(generation)
put_record "$name_pipe" 0 '\x0e\x0e\x0e'
mount_vault
! is_sealed || fail "a damaged file was sealed"
! ls "$mount/directory" > "$work/listed" 2> "$work/said" || fail "a listing is incomplete"
says_error
! stat "$mount/directory/pipe" 2> "$work/said" || fail "a lost name was found"
says_error
! echo other 2> "$work/said" > "$mount/directory/pipe" || fail "a second file of that name was made"
says_error
cmp <(sha256sum < "$mount/directory/small 3" | cut -d ' ' -f 1) \
  <(awk '/\.\/directory\/small 3$/ && length($1) == 64 { print $1 }' "$list") || fail "another file is affected"
echo other > "$mount/other"
sync "$mount/other"
says_damage
umount_vault
[[ $(generation) == "$before" ]] || fail "a backup was made of damaged tables"
s3oramfs restore --force "$vault"
mount_vault
holds "$list"
expect 0 "healthy" s3oramfs status --check "$vault"
umount_vault
s3oramfs fsck "$vault"

# ---- A sealed vault.db.

rm -rf "$vault"
s3oramfs init --local --no-passphrase "$vault"
mount_vault
# Enough names to fill several pages.
long=$(printf 'n%.0s' {1..100})
for directory in 0 1 2; do
  mkdir "$mount/d$directory"
  for i in {1..200}; do echo "d$directory $i" > "$mount/d$directory/$long$i"; done
done
s3oramfs backup "$vault"
manifest "$mount" > "$work/manifest"
touch -r "$mount" "$work/root"
umount_vault
s3oramfs fsck "$vault"
sql() { "$tools/vault_sql" "$vault" "$1"; }
# A page in the middle of a table: of dentries, the names of d1.
find_page() {
  local leaves="FROM dbstat WHERE name = '${1:-dentries}' AND pagetype = 'leaf'"
  sql "PRAGMA wal_checkpoint(TRUNCATE)" > "$work/sql.out"
  page=$(sql "SELECT pageno $leaves ORDER BY path LIMIT 1 OFFSET (SELECT COUNT(*) / 2 $leaves)")
}
find_page
generation() { sql "SELECT MAX(generation) FROM backups"; }
before=$(generation)
# flip BITS: flips these bits in one byte of that page.
flip() {
  local at=$(((page - 1) * 4096 + 1000)) byte
  byte=$(od -An -tu1 -j "$at" -N 1 "$vault/vault.db")
  put "$at" "\\x$(printf %x $((byte ^ $1)))"
}

for bits in 1 85; do
  step "a sealed vault.db, bits $bits"
  flip "$bits"
  mount_vault
  ! ls "$mount/d1" > "$work/listed" 2> "$work/said" || fail "a listing is incomplete"
  says_error
  for i in {1..200}; do
    [[ $(cat "$mount/d1/$long$i" 2> "$work/said") == "d1 $i" ]] || says_error
    [[ $(< "$mount/d2/$long$i") == "d2 $i" ]] || fail "another directory is affected"
  done
  echo other > "$mount/other"
  sync "$mount/other"
  rm "$mount/other"
  touch -r "$work/root" "$mount"
  says_damage
  umount_vault
  flip "$bits"
  [[ $(generation) == "$before" ]] || fail "a backup was made of damaged tables"
done

step "a sealed vault.db that fsck mends"
flip 1
expect 12 "page $page is damaged" s3oramfs fsck "$vault"
s3oramfs fsck --repair "$vault"
s3oramfs fsck "$vault"
mount_vault
holds "$work/manifest"
expect 0 "healthy" s3oramfs status --check "$vault"
umount_vault

for bits in 1 85; do
  step "a sealed vault.db that restore mends, bits $bits"
  find_page
  flip "$bits"
  s3oramfs restore --force "$vault"
  mount_vault
  holds "$work/manifest"
  expect 0 "healthy" s3oramfs status --check "$vault"
  s3oramfs backup "$vault"
  umount_vault
  s3oramfs fsck "$vault"
done

# Pages of files' rows, and of the client's own state. A mount that needs such a page is refused,
# and says what helps. restore gets from the servers what fsck cannot read.
for table in inodes extents positions; do
  step "a sealed vault.db whose page of $table is lost"
  find_page "$table"
  flip 85
  code=0
  said=$(s3oramfs mount "$vault" "$mount" 2>&1) || code=$?
  if ((code == 0)); then # whatever needs the page will give an error
    umount_vault
  else
    [[ $code == 12 && $said == *"restore --force $vault"* ]] || fail "mount: $code, $said"
  fi
  s3oramfs fsck --repair "$vault" > "$work/said"
  [[ $table != inodes ]] || grep -q "before the next mount, s3oramfs restore --force $vault brings back all" "$work/said" ||
    fail "$(< "$work/said")"
  s3oramfs fsck "$vault"
  s3oramfs restore --force "$vault"
  mount_vault
  holds "$work/manifest"
  expect 0 "healthy" s3oramfs status --check "$vault"
  umount_vault
done
