"""`shoal play`: play an environment with the keyboard in the terminal, or watch a policy play (`watch.py`)."""

from typing import Any

from shoal.cli.game import LEVEL_HELP, Game, play_on_screen
from shoal.cli.parser import Line, Parser, whole_number
from shoal.cli.runs import WHICH, env_unless_run, fixed_only, is_run, refuse_for_env
from shoal.cli.watch import watch
from shoal.cli.wraps import add_wrap, env_of


def play_parser() -> Parser:
    """The options of the command; the fields of an environment are flags too."""
    keys = f"Keys in grid levels: {LEVEL_HELP}; in other environments a digit is an action."
    parser = Parser("play", play, "ENV|RUN [options]", named=env_unless_run, opens_run=True, more=keys)
    what = "the name of an environment or file.py:Class; or a run folder or zoo:AGENT/ENV"
    parser.add_argument("what", metavar="ENV|RUN", help=what)
    add_wrap(parser)
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="of the first episode (default 0)")
    policy = parser.add_argument_group("when a policy plays")
    policy.add_argument("--member", metavar="M", help="a number, or `best` (default)")
    policy.add_argument("--which", choices=WHICH, help="last weights (default) or the best")
    policy.add_argument("--sample", action="store_true", help="sample actions, as in training, instead of greedy ones")
    policy.add_argument("--speed", type=whole_number, metavar="N", help="steps a second (default 15)")
    return parser


def play(line: Line) -> None:
    """Play an environment with the keyboard in the terminal, or watch a trained policy play. While a policy plays,
    space pauses and continues. r starts a new episode, q or Escape quits.

      shoal play MiniGrid-DoorKey-8x8-v0
      shoal play MiniGrid-FourRooms-v0 --env.agent-pov true
      shoal play CliffWalking-v1 --wrap TimeLimit:max_steps=30
      shoal play zoo:ppo/CartPole-v1
      shoal play runs/ppo-CartPole-v1 --member 3 --speed 30
    """
    if is_run(line.options.what):
        watch(line.options)
        return
    refuse_for_env(
        line.options, ("member", "which", "sample", "speed", "trust_source"), line.options.what, "played with keys"
    )
    play_on_screen(Game(_environment(line), line.options.seed))


def _environment(line: Line) -> Any:
    """The environment of the command line. Raises ValueError if it cannot be played with keys."""
    from shoal.core.spaces import Discrete
    from shoal.viz.videos import has_picture

    fixed_only(line)
    name = line.options.what
    env = env_of(line)
    if not isinstance(env.action_space, Discrete):
        raise ValueError(f"{name} cannot be played with keys: its actions are {env.action_space}.")
    if not has_picture(env):
        raise ValueError(f"{name} has no pictures: define render(state) -> uint8 [H, W, 3].")
    return env
