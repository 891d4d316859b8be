# shellcheck shell=bash
# The programs are built with hardening: loaded at a random address, with the linker's tables
# read-only before main() begins, with guarded stacks and checked copies.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

for program in s3oramfs s3oramfs-fused s3oramfs-serverd; do
  step "$program"
  file=$bin/$program
  readelf --wide --file-header --segments --dynamic --dyn-syms "$file" > "$work/elf"
  has() { grep -Eq "$1" "$work/elf" || fail "$program: $2"; }
  has 'Type: +DYN' "is no position-independent executable"
  has 'GNU_RELRO' "has no segment that becomes read-only"
  has 'BIND_NOW|FLAGS_1.*NOW' "is resolved lazily, so that its table of functions stays writable"
  has '__stack_chk_fail' "has no guards on its stack"
  has '__[a-z_]+_chk' "copies without checks of lengths"
  ! grep -Eq 'GNU_STACK.* RWE ' "$work/elf" || fail "$program: has an executable stack"
done
