"""`shoal completion`: print a script that completes commands, options, fields and names in bash or zsh.

The script contains all words, so that completion does not start Python. Print it again after an upgrade of shoal.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from shoal.cli.index import index
from shoal.cli.parser import Line, Parser
from shoal.cli.wraps import wrapper_names

TAKES_AGENT = ("train", "describe", "bsuite", "agents")  # commands whose first argument is an agent
TAKES_ENV = ("render", "play", "envs", "bench")  # commands whose arguments are environments or run folders

# Bash splits a word at `=` and `:` (COMP_WORDBREAKS), so in a name with a colon only the part after it is completed.
SCRIPT = Path(__file__).with_name("completion.bash")  # a template: words between @ are replaced
FOR_ZSH = "autoload -U +X compinit && compinit -u\nautoload -U +X bashcompinit && bashcompinit\n"


def completion_parser() -> Parser:
    """The options of the command."""
    parser = Parser("completion", completion, "bash|zsh")
    parser.add_argument("shell", choices=("bash", "zsh"), metavar="bash|zsh", help="for which shell")
    return parser


def completion(line: Line) -> None:
    """Print a script that completes commands, options and names.

    shoal completion bash > ~/.local/share/bash-completion/completions/shoal
    shoal completion zsh > ~/.shoal-completion.zsh    then, in ~/.zshrc: source ~/.shoal-completion.zsh
    """
    from shoal.cli.main import COMMANDS

    found = index()
    options = {name: _options(command.parser(name)) for name, command in COMMANDS.items()}
    fields = {name: row.options for name, row in found.agents.items()}
    script = (
        SCRIPT.read_text()
        .replace("@COMMANDS@", " ".join(COMMANDS))
        .replace("@AGENTS@", " ".join(found.agents))
        .replace("@ENVS@", " ".join(found.envs))
        .replace("@WRAPPERS@", " ".join(wrapper_names()))
        .replace("@OPTIONS@", _cases(options, "options="))
        .replace("@AGENT_FIELDS@", _cases(fields, "options+="))
        .replace("@TAKES_AGENT@", "|".join(f"{name}:2" for name in TAKES_AGENT))
        .replace("@TAKES_ENV@", "|".join(f"{name}:*" for name in TAKES_ENV))
    )
    print((FOR_ZSH if line.options.shell == "zsh" else "") + script, end="")


def _options(parser: Parser) -> list[str]:
    return [option for option in parser._option_string_actions if option.startswith("--")]


def _cases(words: Mapping[str, Iterable[str]], assign: str) -> str:
    return "\n".join(f'                {name}) {assign}" {" ".join(listed)}" ;;' for name, listed in words.items())
