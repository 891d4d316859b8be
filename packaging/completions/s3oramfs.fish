# Completion of s3oramfs and s3oramfs-serverd for fish. It asks the programs themselves for their
# commands and options, so that it is never out of date.

# __s3oramfs_commands PROGRAM [COMMAND]: its commands, or those of a command: server list.
function __s3oramfs_commands
    test (count $argv) != 1; or string match -q '*-serverd' $argv[1]; or echo help
    set -l before (string join ' ' $argv[2..] '')
    $argv[1] --help 2>/dev/null | string match -rg "^  $before([a-z]+)(?: .*)?\$" | sort -u
end

# A command's options are in the first column of its help. Those of s3oramfs itself are in its
# usage.
function __s3oramfs_options
    $argv --help 2>/dev/null | string match -rg '^(?:  | +s3oramfs )(-\S*(?: \| -\S*)?)' |
        string match -ar -- '--?[a-z][a-z-]*'
end

function __s3oramfs_mount_options
    $argv[1] mount --help 2>/dev/null | sed '1,/^Mount options:/d; s/ x-\.\.\.//' | string match -ar '\S+'
end

# __s3oramfs_type OPTION PROGRAM [COMMAND]: the type of its value, and the help's text about it.
function __s3oramfs_type
    string match -qr '^--?[a-z][a-z-]*$' -- $argv[1]
    and $argv[2..] --help 2>/dev/null | string match -rg "^  (?:-.,)?$argv[1] ([A-Z].*)"
end

# The words that a type lists: "shuffle matrix" of "KIND  shuffle or matrix; default: ...".
function __s3oramfs_listed
    string replace -ar '^\S+|\([^)]*\)|;.*|,| or ' ' ' -- $argv[1] | string match -ar '\S+'
end

# The values of an argument that is not an option.
function __s3oramfs_kinds
    $argv --help 2>/dev/null | string match -rg '^  (KIND .*)'
end

function __s3oramfs_takes_file
    $argv --help 2>/dev/null | string match -qr '^Usage:.* FILE'
end

function __s3oramfs_takes_directory
    $argv --help 2>/dev/null | string match -qr '^Usage:.*(VAULT|DIRECTORY)'
end

# Whether the argument is an existing vault, which may also be given as the name of a mount.
function __s3oramfs_takes_name
    $argv --help 2>/dev/null | string match -qr '^  (DIRECTORY\|)?VAULT +The (vault|mount point)'
end

# The names of mounts (man s3oramfs, NAMED MOUNTS).
function __s3oramfs_names
    set -l folder $HOME/.config
    set -q XDG_CONFIG_HOME[1]; and set folder $XDG_CONFIG_HOME
    for file in $folder/s3oramfs/*
        test -f $file; and string replace -r '.*/' '' -- $file | string match -rv '(\.env|~)$'
    end
end

# Prints the program, and its command if one stands before the cursor, and perhaps a command of that
# one.
function __s3oramfs_asked
    set -l words (commandline -opc)
    set -l asked $words[1]
    set -l commands (__s3oramfs_commands $asked)
    for word in $words[2..]
        contains -- $word $commands; or continue
        set -a asked $word
        test $word != help; or break
        set commands (__s3oramfs_commands $asked)
    end
    printf '%s\n' $asked
end

# Prints what any command may take: files, with / after directories.
function __s3oramfs_files
    complete -C "__s3oramfs_unknown $argv[1]"
end

# Prints what may stand at the cursor.
function __s3oramfs_complete
    set -l asked (__s3oramfs_asked)
    set -l last (commandline -opc)[-1]
    set -l word (commandline -ct)
    set -l option $last
    set -l before # the part of the word that is not to be completed
    if string match -q -- '--*=*' $word
        set option (string replace -r '=.*' '' -- $word)
        set before $option=
    end
    set -l type (__s3oramfs_type $option $asked)
    if string match -q 'OPTION,*' -- $type
        set before (string match -r '.*,' -- $word)
        set -l name (string match -rg '([^,=]+)=[^,]*$' -- $word)
        and set before "$before$name="
        and set type (__s3oramfs_type --$name $asked)
    end

    set -l what
    switch "$type$before"
        case 'FILE*'
            set what (__s3oramfs_files (string replace -- "$before" '' $word))
        case 'DIR*'
            set what (__s3oramfs_files (string replace -- "$before" '' $word) | string match '*/')
        case 'LEVEL*' 'KIND*'
            set what (__s3oramfs_listed $type)
        case 'OPTION,*'
            set what (__s3oramfs_mount_options $asked[1])
        case '?*' # a number, or a name
        case '*'
            if string match -q -- '-*' $word
                test "$asked[2]" = help; or set what (__s3oramfs_options $asked)
            else if test "$last" != "$asked[-1]"; and set what (__s3oramfs_kinds $asked)
                set what (__s3oramfs_listed $what)
            else if test (count $asked) = 1 -o "$asked[2]:$last" = help:help
                set what (__s3oramfs_commands $asked[1])
            else
                test "$last" != "$asked[-1]"; or set what (__s3oramfs_commands $asked)
                __s3oramfs_takes_file $asked; and set -a what (__s3oramfs_files $word)
                __s3oramfs_takes_directory $asked; and set -a what (__s3oramfs_files $word | string match '*/')
                __s3oramfs_takes_name $asked; and set -a what (__s3oramfs_names)
            end
    end
    printf '%s\n' "$before"$what
end

complete -c s3oramfs -f -a "(__s3oramfs_complete)"
complete -c s3oramfs-serverd -f -a "(__s3oramfs_complete)"
