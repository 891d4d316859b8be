# Completion of s3oramfs and s3oramfs-serverd for fish. The programs themselves are asked for their
# commands and options, so that this never falls behind them.

function __s3oramfs_commands
    $argv[1] --help 2>/dev/null | string match -rg '^  ([a-z]+)(?: .*)?$' | sort -u
end

# The command on the line, if there is one yet.
function __s3oramfs_command
    set -l words (commandline -opc)
    set -l commands (__s3oramfs_commands $words[1])
    for word in $words[2..-1]
        if contains -- $word $commands
            echo $word
            return 0
        end
    end
    return 1
end

function __s3oramfs_options
    set -l words (commandline -opc)
    $words[1] (__s3oramfs_command) --help 2>/dev/null | string match -arg '(?:^| |,)(--?[a-z][a-z-]*)'
end

function __s3oramfs_after
    contains -- (commandline -opc)[-1] $argv
end

function __s3oramfs_mount_options
    set -l given (string match -r '^.*,' -- (commandline -ct))
    for option in (s3oramfs mount --help 2>/dev/null | sed '1,/^Mount options:/d' | string match -arg '(\S+)')
        echo $given$option
    end
end

set -l files --passfile --keyfile --new-passfile --new-keyfile --config --from --keys --plot
for program in s3oramfs s3oramfs-serverd
    complete -c $program -f
    complete -c $program -n "not __s3oramfs_command" -a "(__s3oramfs_commands $program)"
    complete -c $program -n "string match -q -- '-*' (commandline -ct)" -a "(__s3oramfs_options)"
    complete -c $program -n "__s3oramfs_after $files" -F
end
complete -c s3oramfs -n __s3oramfs_command -a "(__fish_complete_directories)"
complete -c s3oramfs -n "__s3oramfs_after -o" -a "(__s3oramfs_mount_options)"
complete -c s3oramfs-serverd -n "__s3oramfs_after --store" -a "(__fish_complete_directories)"
