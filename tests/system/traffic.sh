# shellcheck shell=bash
# Checks the bytes that go over each link, as `status --json` counts them. Over the client's links,
# with computational privacy, at most 1.1 blocks go up and down per access, including queries and
# evictions, for writes as for reads; as in the paper, with the other kind of privacy, a block goes
# to each server and one comes from each. Between the servers goes what docs/parameters.md says for
# an access with the vault's numbers.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

mkdir "$work/mount"

# ask SQL: runs SQL over the last status and the vault's file.
ask() {
  sqlite3 -separator ' ' :memory: "
    WITH status(told) AS (SELECT readfile('$work/status')),
      vault(file) AS (SELECT readfile('$work/vault/vault.json')),
      client(server, up, down) AS (
        SELECT key + 1, value->>'bytes_sent', value->>'bytes_received'
        FROM status, json_each(told, '\$.servers')),
      link(at, other, sent, received) AS (
        SELECT each.key + 1, link.value->>'server', link.value->>'bytes_sent', link.value->>'bytes_received'
        FROM status, json_each(told, '\$.servers') AS each, json_each(each.value, '\$.links') AS link)
    $1"
}
volume() { ask "SELECT told->>'\$.volume.$1' FROM status"; }
# No eviction is under way or due, and each end of each link has received what the other has sent.
settled() {
  s3oramfs status --json "$work/vault" > "$work/status"
  [[ $(volume evicting) == 0 && $(volume evictions_due) == 0 ]] &&
    [[ $(ask "SELECT count(*) FROM link AS one JOIN link AS two
      ON one.at = two.other AND one.other = two.at AND one.sent = two.received") == "$links" ]]
}
# within WHAT COUNT FROM TO
within() {
  awk -v n="$2" -v from="$3" -v to="$4" 'BEGIN { exit !(from <= n && n <= to) }' ||
    fail "$1: $2 is not from $3 to $4"
}
# per_access BYTES: prints this number in blocks per access.
per_access() { awk -v n="$1" -v a="$accesses" -v b="$block" 'BEGIN { printf "%.3f", n / a / b }'; }

# look WHAT LEAST MOST: checks the bytes over the client's links since the mount.
look() {
  local up down
  wait_until "evictions are over and both ends of each link agree" settled
  accesses=$(volume accesses) block=$(volume block_size)
  ((accesses >= (16 << 20) / block)) || fail "only $accesses accesses"
  [[ $(ask "SELECT count(*) FROM client WHERE up > 0 AND down > 0") == "$servers" ]] ||
    fail "nothing went over one of the client's links"
  [[ $(ask "SELECT count(DISTINCT at || other) FROM link WHERE sent > 0") == "$links" ]] ||
    fail "nothing went over one of the links between servers"
  up=$(per_access "$(ask 'SELECT sum(up) FROM client')")
  down=$(per_access "$(ask 'SELECT sum(down) FROM client')")
  step "  $1: $accesses accesses, $up blocks up and $down down each"
  within "blocks up" "$up" "$2" "$3"
  within "blocks down" "$down" "$2" "$3"
}
# between_servers OF-AN-EVICTION OF-AN-ACCESS: in slots, as SQL over h, z, s and a, while the tree
# keeps one height. There is an eviction every A accesses.
between_servers() {
  local evictions every expected sent
  [[ $(volume height) == "$height" ]] || fail "the tree grew while this was counted"
  evictions=$(volume evictions) every=$(ask "SELECT file->>'evict_every' FROM vault")
  within "evictions" "$evictions" $((accesses / every)) $((accesses / every + 1))
  expected=$(ask ", n(h, z, s, a) AS (
      SELECT told->>'\$.volume.height', file->>'bucket_size',
        file->>'stash_slots', file->>'evict_every' FROM status, vault)
    SELECT ($evictions * ($1) + $accesses * ($2)) * ($block + $beside) FROM n")
  sent=$(ask 'SELECT sum(sent) FROM link')
  step "  between servers: $(per_access "$sent") blocks an access, computed $(per_access "$expected")"
  within "bytes between servers, of those computed" \
    "$(awk -v s="$sent" -v e="$expected" 'BEGIN { print s / e }')" 0.98 1.02
}

# measure SERVERS BESIDE BLOCK LEAST MOST OF-AN-EVICTION OF-AN-ACCESS OPTION...: BESIDE is the
# number of bytes in a slot beside its block.
measure() {
  local accesses block height
  local servers=$1 beside=$2 links=$(($1 * ($1 - 1)))
  shift 2
  step "${*:6}, blocks of $1"
  s3oramfs init --local --no-passphrase "${@:6}" --block-size "$1" "$work/vault" > /dev/null
  s3oramfs mount "$work/vault" "$work/mount"
  head -c 16M /dev/urandom > "$work/data"
  cp "$work/data" "$work/mount/data"
  sync "$work/mount/data"
  look writes "$2" "$3"
  s3oramfs umount "$work/mount"
  s3oramfs mount "$work/vault" "$work/mount"
  s3oramfs status --json "$work/vault" > "$work/status"
  height=$(volume height)
  cmp "$work/data" "$work/mount/data" || fail "other data comes back"
  look reads "$2" "$3"
  between_servers "$4" "$5"
  s3oramfs umount "$work/mount"
  rm -r "$work/vault"
}

shuffle="2 * (h * z + s + a) + 2 * (h * z + s) + a + 1" # the last two terms are the check's
matrix="3 * 2 * (h + 1) * z"
exchange="h * z + s" # sent by each of a mirror's two workers, and to a server that is no worker
measure 3 64 64K 1.0 1.1 "$shuffle" 3 --privacy computational
measure 3 64 256K 1.0 1.1 "$shuffle" 3 --privacy computational
measure 3 64 64K 3.0 3.5 "$matrix" 0 --privacy information-theoretic
measure 2 1104 64K 1.0 1.1 "2 * ($exchange)" 2 --scheme mirror
measure 3 1104 64K 1.0 1.1 "3 * ($exchange)" 3 --scheme mirror --servers 3
