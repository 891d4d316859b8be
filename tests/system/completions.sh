# shellcheck shell=bash
# What bash, zsh and fish offer for commands, options and their values, compared with what the
# programs' help says that there is. zsh and fish are tested if they are installed. bash and zsh
# call the completion as they do for a user, but with this test's own compopt, compset and compadd,
# because theirs work only at a terminal.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

completions=$(realpath "$(dirname "$0")/../../packaging/completions")
export PATH=$bin:$PATH HOME=$work
unset XDG_CONFIG_HOME
shells=(bash)
for shell in zsh fish; do
  if command -v $shell > "$work/found"; then shells+=("$shell"); else echo "not tested: $shell is not installed"; fi
done

# complete_in_SHELL WORD...: what the shell offers for the last word. Readline passes = as a word of
# its own; the others do not.
complete_in_bash() {
  bash --norc -c '
    . "$1"
    compopt() { :; }
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) last=${*: -1}
    _s3oramfs "$1" "${last#=}"
    printf "%s\n" "${COMPREPLY[@]}"' complete "$completions/s3oramfs.bash" "$@"
}
complete_in_zsh() {
  zsh -f -c '
    compset() { # -P [1] PATTERN
      local rest
      if [[ $2 == 1 ]]; then rest=${PREFIX#${~3}}; else rest=${PREFIX##${~2}}; fi
      IPREFIX+=${PREFIX%$rest} PREFIX=$rest
    }
    compadd() { # [-S SUFFIX] -- WORD...
      local word
      for word in "${@[$@[(i)--]+1,-1]}"; do
        [[ $word != $PREFIX* ]] || print -r -- $word
      done
    }
    _files() { [[ ! -e $PREFIX ]] || print -r -- ${PREFIX%/}; }
    file=$1
    shift
    words=("$@") CURRENT=$# PREFIX=$words[-1] IPREFIX=
    . $file' complete "$completions/_s3oramfs" "$@"
}
complete_in_fish() {
  fish --no-config -c "source $completions/s3oramfs.fish; complete -C '$*'" | sed 's/\t.*//; s,/$,,'
}
# offers WORDS WORD...: bash offers exactly these for the last word.
offers() {
  local said
  said=$(complete_in_bash "${@:2}" | paste -sd ' ')
  [[ $said == "$1" ]] || fail "bash offers \"$said\" instead of \"$1\" for: ${*:2}"
}
sorted() { tr ' ' '\n' | sed '/^$/d' | sort -u; }
# all_offer WORDS WORD...: every shell offers exactly these, in any order. No word has blanks.
all_offer() {
  local shell
  for shell in "${shells[@]}"; do
    diff <(sorted <<< "$1") <("complete_in_$shell" "${@:2}" | sorted) ||
      fail "$shell does not offer what it should (<), or more (>), for: ${*:2}"
  done
}

# ---- every command and option of the help ---------------------------------------------------------

# The commands of s3oramfs that stand in its help: "mount", "server list".
documented() { s3oramfs --help | grep -oE '^  [a-z]+( [a-z]+)?' | sed 's/^  //' | sort -u; }
options_of() { "$@" --help | sed -nE 's/^  (-.,)?(--[a-z-]+).*/\2/p'; }

step "commands"
mkdir "$work/here"
cd "$work/here"
mapfile -t commands < <(documented)
((${#commands[@]} > 20)) || fail "only ${#commands[@]} commands are found: ${commands[*]}"
all_offer "help $(printf '%s\n' "${commands[@]%% *}" | paste -sd ' ')" s3oramfs ""
all_offer "keygen authorize revoke join status peers" s3oramfs-serverd ""
all_offer list s3oramfs server l
all_offer replace s3oramfs server r
all_offer "plot" s3oramfs record ""
all_offer "mount migrate" s3oramfs help m

step "options"
for command in "${commands[@]}" server record; do
  options=$(options_of s3oramfs $command) # shellcheck disable=SC2086
  [[ -n $options ]] || fail "no options of $command"
  # shellcheck disable=SC2086
  all_offer "${options//$'\n'/ }" s3oramfs $command --
done
for command in "" keygen authorize revoke join status peers; do
  options=$(options_of s3oramfs-serverd $command)
  # shellcheck disable=SC2086
  all_offer "${options//$'\n'/ }" s3oramfs-serverd $command --
done
all_offer "--help --version" s3oramfs --

step "values"
# Whatever a type lists must be taken: an option whose help lists words has one of these types.
all_offer "trace debug info warning error" s3oramfs mount --log-level ""
all_offer "trace debug info warning error critical off" s3oramfs-serverd --log-level ""
all_offer "computational information-theoretic" s3oramfs init --privacy ""
all_offer "shuffle matrix" s3oramfs init --evictor ""
all_offer "ring mirror s3oram" s3oramfs init --scheme ""
all_offer "ring mirror s3oram" s3oramfs migrate --scheme ""
all_offer "ring s3oram" s3oramfs demo --scheme ""
all_offer "malicious honest-but-curious" s3oramfs init --security ""
all_offer "malicious honest-but-curious" s3oramfs security private ""
for option in --expect --block-size --timeout --server --passprog; do
  all_offer "" s3oramfs init "$option" ""
done

# ---- files, names and lists of options ------------------------------------------------------------

step "names of mounts"
mkdir -p "$work/config/s3oramfs/folder"
export XDG_CONFIG_HOME=$work/config
touch "$work/config/s3oramfs"/{private,printer,other,private.env,private~,.hidden}
for command in mount umount status fsck "server list" "server replace"; do
  # shellcheck disable=SC2086
  all_offer "printer private" s3oramfs $command pri
done
all_offer "other" s3oramfs backup oth
all_offer "" s3oramfs init pri
all_offer "" s3oramfs bench pri
offers "" s3oramfs mount .hid
unset XDG_CONFIG_HOME

step "files"
mkdir "$work/sbin"
touch "$work/key"
offers "$work/sbin" s3oramfs mount "$work/sbi"
offers "$work/sbin" s3oramfs-serverd --store "$work/sbi"
offers "$bin/s3oramfs-fused" s3oramfs restore --from "$bin/s3oramfs-f"
offers "$work/key" s3oramfs record plot "$work/ke"
offers "--help --version" s3oramfs -
offers passwd s3oramfs pass
offers help s3oramfs he
offers "" s3oramfs help mount "$work/sbi"
offers "" s3oramfs version "$work/sbi"
offers warning s3oramfs mount --log-level = w
offers "shuffle matrix" s3oramfs init --evictor =
offers "" s3oramfs-serverd --index "$work/sbi"
offers ro,noatime s3oramfs mount -o ro,noat
offers "" s3oramfs mount -o x-
offers "$bin/s3oramfs-fused" s3oramfs mount -o ro,passfile = "$bin/s3oramfs-f"
offers "$work/key,noatime" s3oramfs mount -o keyfile = "$work/key,noat"
offers warning s3oramfs mount -o log-level = w
offers "" s3oramfs mount -o cache = "$work/sbi"
offers --rotate s3oramfs-serverd keygen --rot
offers "--help --store" s3oramfs-serverd --store "$work" authorize --
echo "as the help says, in: ${shells[*]}"
