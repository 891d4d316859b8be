# shellcheck shell=bash
# Completion of s3oramfs and s3oramfs-serverd for bash. It asks the programs themselves for their
# commands and options, so that it is never out of date.

# _s3oramfs_commands PROGRAM [COMMAND]: its commands, or those of a command: server list.
_s3oramfs_commands() {
  [[ $# != 1 || $1 == *-serverd ]] || echo help
  "$1" --help 2> /dev/null | sed -nE "s/^  ${2:+$2 }([a-z]+)( .*)?$/\1/p" | sort -u
}
# A command's options are in the first column of its help. Those of s3oramfs itself are in its
# usage.
_s3oramfs_options() {
  "$@" --help 2> /dev/null | sed -nE 's/^(  | +s3oramfs )(-[^ ]*( \| -[^ ]*)?).*/\2/p' |
    grep -oE -- '--?[a-z][a-z-]*'
}
_s3oramfs_mount_options() { "$1" mount --help 2> /dev/null | sed '1,/^Mount options:/d; s/ x-\.\.\.//'; }
# _s3oramfs_type OPTION PROGRAM [COMMAND]: the type of its value, and the help's text about it.
_s3oramfs_type() {
  [[ ! $1 =~ ^--?[a-z][a-z-]*$ ]] || "${@:2}" --help 2> /dev/null | sed -nE "s/^  (-.,)?$1 ([A-Z].*)/\2/p"
}
# The words that a type lists: "shuffle matrix" of "KIND  shuffle or matrix; default: ...".
_s3oramfs_listed() { sed -E 's/^[^ ]+|\([^)]*\)|;.*|,| or / /g' <<< "$1"; }
# The values of an argument that is not an option.
_s3oramfs_kinds() { "$@" --help 2> /dev/null | sed -nE 's/^  (KIND .*)/\1/p'; }
_s3oramfs_takes_file() { "$@" --help 2> /dev/null | grep -qE '^Usage:.* FILE'; }
_s3oramfs_takes_directory() { "$@" --help 2> /dev/null | grep -qE '^Usage:.*(VAULT|DIRECTORY)'; }
# Whether the argument is an existing vault, which may also be given as the name of a mount.
_s3oramfs_takes_name() { "$@" --help 2> /dev/null | grep -qE '^  (DIRECTORY\|)?VAULT +The (vault|mount point)'; }
# Names of mounts (man s3oramfs, NAMED MOUNTS) that begin with $1.
_s3oramfs_names() {
  local file folder=${XDG_CONFIG_HOME:-$HOME/.config}/s3oramfs
  [[ $1 != .* && $1 != */* ]] || return 0
  for file in "$folder/$1"*; do
    [[ ! -f $file || $file == *.env || $file == *~ ]] || echo "${file##*/}"
  done
}

# Sets words to the words up to the cursor, joining those that readline has also split at = and :.
_s3oramfs_join() {
  local part joins=""
  words=("$program")
  for part in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    [[ $part != [=:]* ]] || joins=1
    if [[ $joins ]] && ((${#words[@]} > 1)); then words[-1]+=$part; else words+=("$part"); fi
    [[ $part == [=:]* ]] || joins=""
  done
}
# Sets asked to the program, and to its command if one stands before the cursor, and perhaps to a
# command of that one. Sets commands to those that may follow.
_s3oramfs_ask() {
  local part
  asked=("$program")
  for part in "${words[@]:1:${#words[@]}-2}"; do
    if grep -qxF -- "$part" <<< "$commands"; then
      asked+=("$part")
      [[ $part != help ]] || return 0
      commands=$(_s3oramfs_commands "$program" "${asked[*]:1}")
      [[ $commands ]] || return 0
    fi
  done
}
# If a value is to be completed, sets type to its type, and before to the part of the word before
# it.
_s3oramfs_find_value() {
  local option=${words[-2]}
  if [[ $word == --*=* ]]; then
    option=${word%%=*} before=${word%%=*}=
  fi
  type=$(_s3oramfs_type "$option" "${asked[@]}")
  [[ $type == OPTION,* ]] || return 0
  compopt -o nospace
  [[ $word != *,* ]] || before=${word%,*},
  option=${word##*,}
  if [[ $option == *=* ]]; then
    before+=${option%%=*}=
    type=$(_s3oramfs_type "--${option%%=*}" "${asked[@]}")
  fi
}

_s3oramfs() {
  local program=$1 last=${COMP_WORDS[COMP_CWORD]} words asked type before="" word split commands kinds="" what=() names="" reply
  commands=$(_s3oramfs_commands "$program")
  _s3oramfs_join
  _s3oramfs_ask
  split=${words[-1]} # the part that readline does not replace
  [[ $last == [=:]* ]] || split=${split%"$last"}
  word=$split$2
  _s3oramfs_find_value
  case $type$before in
    FILE*) what=(-f) ;;
    DIR*) what=(-d) ;;
    LEVEL* | KIND*) what=(-W "$(_s3oramfs_listed "$type")") ;;
    OPTION,*) what=(-W "$(_s3oramfs_mount_options "$program")") ;;
    ?*) ;; # a number, or a name
    *)
      [[ ${words[-2]} == "${asked[-1]}" ]] || kinds=$(_s3oramfs_kinds "${asked[@]}")
      if [[ $kinds ]]; then
        what=(-W "$(_s3oramfs_listed "$kinds")")
      elif ((${#asked[@]} == 1)) || [[ $commands && ${words[-2]} == "${asked[-1]}" ]]; then
        what=(-W "$commands")
      fi
      if [[ ! $kinds && ${#asked[@]} != 1 ]]; then
        ! _s3oramfs_takes_file "${asked[@]}" || what+=(-f)
        ! _s3oramfs_takes_directory "${asked[@]}" || what+=(-d)
        ! _s3oramfs_takes_name "${asked[@]}" || names=1
      fi
      [[ $word != -* || ${asked[1]:-} == help ]] || what=(-W "$(_s3oramfs_options "${asked[@]}")")
      ;;
  esac
  [[ " ${what[*]} " != *" "-[fd]" "* ]] || compopt -o filenames
  mapfile -t reply < <(compgen -P "$before" "${what[@]}" -- "${word#"$before"}")
  [[ ! $names ]] || mapfile -t -O "${#reply[@]}" reply < <(_s3oramfs_names "$word")
  COMPREPLY=("${reply[@]#"$split"}")
}
complete -F _s3oramfs s3oramfs s3oramfs-serverd
