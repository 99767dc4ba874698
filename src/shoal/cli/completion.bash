_shoal() {
    local word="${COMP_WORDS[COMP_CWORD]}" command="${COMP_WORDS[1]}" agent="${COMP_WORDS[2]}" env="${COMP_WORDS[3]}"
    local commands="@COMMANDS@"
    local agents="@AGENTS@"
    local envs="@ENVS@"
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "$commands" -- "$word"))
        return
    fi
    if [ "${COMP_WORDS[COMP_CWORD-1]}" = "--wrap" ]; then
        COMPREPLY=($(compgen -W "@WRAPPERS@" -- "$word"))
        return
    fi
    case "$word" in
        -*)
            local options=""
            case "$command" in
@OPTIONS@
            esac
            case "$command" in
                train|bsuite)
                    case "$agent" in
@AGENT_FIELDS@
                    esac
                    ;;
            esac
            COMPREPLY=($(compgen -W "$options" -- "$word"))
            return
            ;;
    esac
    case "$command:$COMP_CWORD" in
        @TAKES_AGENT@) COMPREPLY=($(compgen -W "$agents" -- "$word")) ;;
        train:3) COMPREPLY=($(compgen -W "$envs" -- "$word")) ;;
        @TAKES_ENV@) COMPREPLY=($(compgen -W "$envs" -- "$word") $(compgen -f -- "$word")) ;;
        completion:2) COMPREPLY=($(compgen -W "bash zsh" -- "$word")) ;;
        *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}
complete -o filenames -F _shoal shoal
