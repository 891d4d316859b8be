# shellcheck shell=bash
# Completion of s3oramfs and s3oramfs-serverd for bash. The programs themselves are asked for their
# commands and options, so that this never falls behind them.

_s3oramfs_commands() {
  "$1" --help 2> /dev/null | sed -nE 's/^  ([a-z]+)( .*)?$/\1/p' | sort -u
}
_s3oramfs_options() { "$@" --help 2> /dev/null | grep -oE -- '(^| |,)--?[a-z][a-z-]*' | tr -d ' ,'; }
_s3oramfs_mount_options() { "$1" mount --help 2> /dev/null | sed '1,/^Mount options:/d'; }

_s3oramfs() {
  local program=$1 word=$2 before=$3 command="" i reply=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} != -* ]] || continue
    command=${COMP_WORDS[i]}
    break
  done
  # An option's value is no command.
  [[ $program != *-serverd ]] || _s3oramfs_commands "$program" | grep -qx -- "$command" || command=""
  case $before in
    -o)
      local done=""
      [[ $word != *,* ]] || done=${word%,*},
      mapfile -t reply < <(compgen -P "$done" -W "$(_s3oramfs_mount_options "$program")" -- "${word##*,}")
      compopt -o nospace
      ;;
    --passfile | --keyfile | --new-passfile | --new-keyfile | --config | --from | --keys | --plot)
      compopt -o filenames
      mapfile -t reply < <(compgen -f -- "$word")
      ;;
    --store)
      compopt -o filenames
      mapfile -t reply < <(compgen -d -- "$word")
      ;;
    *)
      if [[ $word == -* ]]; then
        mapfile -t reply < <(compgen -W "$(_s3oramfs_options "$program" ${command:+"$command"})" -- "$word")
      elif [[ -z $command ]]; then
        mapfile -t reply < <(compgen -W "$(_s3oramfs_commands "$program")" -- "$word")
      elif [[ $program != *-serverd ]]; then # a vault, or where it is mounted
        compopt -o filenames
        mapfile -t reply < <(compgen -d -- "$word")
      fi
      ;;
  esac
  COMPREPLY=("${reply[@]}")
}
complete -F _s3oramfs s3oramfs s3oramfs-serverd
