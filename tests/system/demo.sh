# shellcheck shell=bash
# Runs s3oramfs demo, and makes a server's own record and the plot of it. The pages are opened in a
# browser, which reports what it has drawn, where, and whether it requested anything else.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse
command -v chromium > /dev/null || fail "chromium is missing (Debian package chromium)"

# browse PAGE: writes the findings of a script at the page's end to $work/drawn, as lines
# NAME=VALUE.
browse() {
  local page=$work/opened.html
  cp "$1" "$page"
  cat >> "$page" << 'EOF'
<script>
const out = [];
const say = (name, value) => out.push(name + "=" + value);
const svg = document.querySelector("svg").getBoundingClientRect();
const inside = (box) => box.left >= svg.left - 1 && box.right <= svg.right + 1 &&
  box.top >= svg.top - 1 && box.bottom <= svg.bottom + 1;
for (const panel of document.querySelectorAll("svg rect[id]")) {
  const box = panel.getBoundingClientRect();
  say("panel", panel.id + (box.width > 100 && box.height > 40 && inside(box) ? " drawn" : " lost"));
}
for (const text of document.querySelectorAll("svg text"))
  if (!inside(text.getBoundingClientRect())) say("outside", text.textContent);
const texts = [...document.querySelectorAll("svg text")];
for (const a of texts) for (const b of texts) {
  const x = a.getBoundingClientRect(), y = b.getBoundingClientRect();
  if (a !== b && x.left < y.right - 1 && y.left < x.right - 1 && x.top < y.bottom - 4 && y.top < x.bottom - 4)
    say("overlap", a.textContent + " | " + b.textContent);
}
let dots = 0;
for (const path of document.querySelectorAll("svg path[data-dots]"))
  if (path.getBoundingClientRect().width > 0 && path.getTotalLength() >= 0) dots += Number(path.dataset.dots);
say("dots", dots);
say("rows", document.querySelectorAll("table tr").length);
say("requests", performance.getEntriesByType("resource").length);
say("title", document.title);
const pre = document.createElement("pre");
pre.id = "drawn";
pre.textContent = "\n" + out.join("\n") + "\n";
document.body.append(pre);
</script>
EOF
  HOME=$work chromium --headless --no-sandbox --disable-gpu --user-data-dir="$work/browser" \
    --window-size=1100,1400 --dump-dom "file://$page" > "$work/dom" 2> "$work/browser.log" ||
    fail "the browser ended with an error: $(tail -n 3 "$work/browser.log")"
  sed -n '/<pre id="drawn">/,/<\/pre>/p' "$work/dom" > "$work/drawn"
  [[ -s $work/drawn ]] || fail "the browser ran no script on $1"
  grep -q '^requests=0$' "$work/drawn" || fail "$1 asks for something else: $(cat "$work/drawn")"
  ! grep -E '^(outside|overlap)=| lost$' "$work/drawn" || fail "$1 is not drawn as it should be"
}
value_of() { sed -n "s/^$1=//p" "$work/drawn"; }

accesses=100
for scheme in ring s3oram; do
  step "the demonstration with $scheme"
  (cd "$work" && s3oramfs demo --scheme $scheme --accesses $accesses --output page.html) ||
    fail "the demonstration failed"
  browse "$work/page.html"
  for panel in plain-{1..3} seen-{1..3} clock-{1..3}; do
    grep -q "^panel=$panel drawn$" "$work/drawn" || fail "no panel $panel: $(cat "$work/drawn")"
  done
  # Each access appears twice, once as a plain server sees it; evictions come on top.
  (($(value_of dots) >= 6 * accesses)) || fail "$(value_of dots) dots of $accesses accesses of each"
  [[ $(value_of title) == "What a server sees" ]] || fail "title: $(value_of title)"
  grep -q ', of 256</td>' "$work/page.html" || fail "not all paths were read"
  last=$(grep -o '<th>Are two of the three alike.*</td></tr>' "$work/page.html")
  [[ $last =~ \<td\>below\ 0.000001\</td\>\<td\>(0|1)\.[0-9]+\</td\> ]] || fail "the statistic: $last"
done
[[ -z $(find "${TMPDIR:-/tmp}" -maxdepth 1 -name 's3oramfs-demo-*' -newer "$work/page.html") ]] || fail "the demo leaves its vault behind"

step "refusals"
expect 2 ".html, .svg or .png" s3oramfs demo --output page.pdf

step "an interrupted demonstration leaves nothing behind"
mkdir "$work/temporary"
left() { ls -d "$work/temporary"/s3oramfs-demo-* > /dev/null 2>&1; }
TMPDIR=$work/temporary "$bin/s3oramfs" demo --scheme ring --accesses 20000 --output "$work/no.html" 2> "$work/said" &
demo=$!
wait_until "it has begun" left
kill -TERM "$demo"
! wait "$demo" || fail "demo succeeded although it was interrupted"
grep -q 'interrupted' "$work/said" || fail "$(< "$work/said")"
! left || fail "left behind: $(ls "$work/temporary")"

expect 2 "has s3oram and ring" s3oramfs demo --scheme mirror
expect 1 "nowhere" s3oramfs demo --output "$work/nowhere/page.html"
expect 2 "not a record" s3oramfs record plot "$work/page.html"
expect 1 "no-record" s3oramfs record plot "$work/no-record"

step "a record of one's own server"
vault=$work/vault mount=$work/mount
mkdir "$mount"
make_servers store
server_more=(--record "$work/record" --record-limit 100M)
start_server 1
server_more=()
start_server 2
start_server 3
s3oramfs init --no-passphrase --wait 0 "${server_options[@]}" "$vault" > "$work/init.log" 2>&1 ||
  [[ $? == 15 ]] || fail "init does not end as for a key that no server knows"
authorize "$(shown_key < "$work/init.log")"
s3oramfs init --no-passphrase --wait 30 "${server_options[@]}" "$vault"
s3oramfs mount "$vault" "$mount"
for i in {1..40}; do
  head -c 200000 /dev/urandom > "$mount/$i"
  sync "$mount/$i"
done
s3oramfs umount "$mount"
stop_servers
[[ $(stat -c %a "$work/record") == 600 ]] || fail "others may read the record"
for what in access,read root,write eviction,read eviction,write; do
  grep -q ",$what," "$work/record" || fail "no $what in the record"
done
s3oramfs record plot "$work/record" --output "$work/record.html"
browse "$work/record.html"
for panel in seen places clock; do
  grep -q "^panel=$panel drawn$" "$work/drawn" || fail "no panel $panel: $(cat "$work/drawn")"
done
[[ $(value_of title) == "What one s3oramfs server sees" ]] || fail "title: $(value_of title)"
s3oramfs record plot "$work/record" --output "$work/record.png"
[[ $(head -c 4 "$work/record.png") == $'\x89PNG' ]] || fail "no PNG"
