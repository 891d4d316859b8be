# shellcheck shell=bash
# Volumes made by earlier versions, and by this one, open at any path with unchanged content, and
# can still be used. A volume of a later version is refused and left unchanged.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
golden=$(dirname "$(realpath "$0")")/../golden
# shellcheck source=tests/golden/manifest.sh
. "$golden/manifest.sh"
need_fuse

mount=$work/mount
mkdir "$mount"
credentials "$work"

unmounted() {
  s3oramfs umount "$mount"
  wait_until "all processes of $1 have ended" no_processes_of "$1"
}
holds() {
  manifest "$mount" > "$work/found"
  same "$1" "$work/found" "what $2 does not come back"
}
# newer FILE SQL: a database that SQL has changed is refused by its name, and refusing does not
# change it.
newer() {
  local copy=$work/newer before
  rm -rf "$copy" && cp -a "$vault" "$copy"
  sqlite3 -batch -bail "$copy/$1" "$2; PRAGMA wal_checkpoint(TRUNCATE)" > "$work/sql.out"
  before=$(sqlite3 -batch "$copy/$1" .dump | sha256sum)
  expect 20 "$copy/$1" s3oramfs mount "$copy" "$mount"
  expect 20 "format 99 is newer" s3oramfs mount "$copy" "$mount"
  ! is_mounted "$mount" || fail "mounted nevertheless: $2"
  wait_until "all processes of $copy have ended" no_processes_of "$copy"
  [[ $(sqlite3 -batch "$copy/$1" .dump | sha256sum) == "$before" ]] || fail "changed nevertheless: $2"
}

found=0
for archive in "$golden"/*.tar.gz; do
  name=$(basename "$archive" .tar.gz)
  list=$golden/$name.manifest
  vault=$work/somewhere/else/$name # no path in it may bind it to where it was made
  mkdir -p "$vault"
  tar -C "$vault" --strip-components=1 -xpzf "$archive"
  first=() second=()
  [[ $name != *-matrix ]] || first=(--passfile "$work/passphrase") second=(--keyfile "$work/keyfile")
  step "$name, only read"
  s3oramfs fsck "${first[@]}" "$vault" || fail "fsck finds something in $name"
  s3oramfs mount -o ro "${first[@]}" "$vault" "$mount"
  holds "$list" "$name held"
  expect 1 "Read-only" touch "$mount/new"
  unmounted "$vault"
  step "$name, used further"
  s3oramfs mount "${second[@]}" "$vault" "$mount"
  holds "$list" "$name held"
  head -c 30000 /dev/urandom > "$work/written"
  cp "$work/written" "$mount/directory/written"
  manifest "$mount" > "$work/with it"
  unmounted "$vault"
  mv "$vault" "$vault moved"
  s3oramfs mount "${first[@]}" "$vault moved" "$mount"
  holds "$work/with it" "was written to $name"
  cmp "$work/written" "$mount/directory/written"
  unmounted "$vault moved"
  s3oramfs fsck "${second[@]}" "$vault moved" || fail "fsck finds something in $name after it was used"
  if [[ $name != *-matrix ]]; then
    step "$name, restored"
    rm "$vault moved"/vault.db*
    s3oramfs restore "${first[@]}" "$vault moved"
    s3oramfs mount -o ro "${first[@]}" "$vault moved" "$mount"
    holds "$work/with it" "was restored of $name"
    unmounted "$vault moved"
  fi
  if [[ $name == *-mirror ]]; then
    step "$name, scrubbed"
    rm -rf "$vault" && mkdir "$vault"
    tar -C "$vault" --strip-components=1 -xpzf "$archive"
    s3oramfs mount "$vault" "$mount"
    s3oramfs scrub "$vault" > "$work/scrub.out"
    ! grep -q "lost" "$work/scrub.out" || fail "a scrub of $name finds: $(< "$work/scrub.out")"
    unmounted "$vault"
  fi
  found=$((found + 1))
done
((found >= 20)) || fail "there are only $found golden volumes"

step "later formats"
vault=$work/older
mkdir "$vault"
tar -C "$vault" --strip-components=1 -xpzf "$golden/v6-shuffle.tar.gz" # the last plain vault.db
newer vault.db "UPDATE tree SET format = 99"
newer vault.db "UPDATE fs_state SET value = 99 WHERE name = 'format'"
newer servers/2/control.db "UPDATE volume SET format = 99"
cp -a "$vault" "$work/json"
sed -i 's/"format": [0-9]*/"format": 99/' "$work/json/vault.json"
expect 20 "$work/json/vault.json: its format 99 is newer" s3oramfs mount "$work/json" "$mount"
# fsck --repair is only for damaged files.
rm -rf "$work/newer" && cp -a "$vault" "$work/newer" # the previous copy has been sealed
sqlite3 -batch "$work/newer/vault.db" "UPDATE tree SET format = 99" > "$work/sql.out"
before=$(sqlite3 -batch "$work/newer/vault.db" .dump | sha256sum)
expect 20 "format 99 is newer" s3oramfs fsck --repair "$work/newer"
code=0
said=$(s3oramfs fsck "$work/newer" 2>&1) || code=$?
[[ $code == 20 && $said != *--repair* ]] || fail "fsck of a newer vault: $code, $said"
[[ $(sqlite3 -batch "$work/newer/vault.db" .dump | sha256sum) == "$before" ]] || fail "fsck changed the vault"

step "later seals"
vault="$work/somewhere/else/v6-shuffle moved"
[[ $(head -c 21 "$vault/vault.db" | tail -c 1 | od -An -tu1) -eq 40 ]] || fail "vault.db was not sealed"
! grep -q "a name of odd bytes" "$vault/vault.db" || fail "vault.db shows content"
! grep -q "symbolic link" "$vault"/vault.db* || fail "vault.db shows a name"
# Changes SQLite's user_version. The page then does not match its seal either, which must not
# matter.
printf '\0\0\0\143' | dd of="$vault/vault.db" bs=1 seek=60 conv=notrunc status=none
before=$(sha256sum < "$vault/vault.db")
expect 20 "$vault/vault.db: its format 99 is newer" s3oramfs mount "$vault" "$mount"
expect 20 "format 99 is newer" s3oramfs fsck --repair "$vault"
[[ $(sha256sum < "$vault/vault.db") == "$before" ]] || fail "a newer vault was changed"
