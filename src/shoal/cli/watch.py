"""`shoal play RUN`: watch what was learned, in the terminal."""

import argparse
from typing import Any

from shoal.cli.parser import Parser, whole_number
from shoal.cli.play import AFRESH, QUIT, Game
from shoal.cli.screen import Screen

EXAMPLES = "examples:\n  shoal play zoo:ppo/CartPole-v1\n  shoal play runs/ppo-CartPole-v1 --member 3 --speed 30"
LINGER = 1.0  # seconds that the end of an episode stays on the screen


def watch(words: list[str]) -> None:
    """A policy plays, episode after episode, until `q`."""
    arguments = _arguments(words)
    game = Watched(_policy(arguments), arguments.seed, greedy=not arguments.sample)
    with Screen() as screen:
        screen.show(None, ["compiling ..."])
        game.begin()
        is_paused = False
        while True:
            picture, small = game.picture(screen.size)
            screen.show(picture, game.lines(small))
            wait = None if is_paused else LINGER if game.ended else 1 / arguments.speed
            key = screen.key(wait)
            if key in QUIT:
                break
            if key == "space":
                is_paused = not is_paused
            elif key in AFRESH or (game.ended and not is_paused):
                game.begin()
            elif not is_paused:
                game.advance()
    print(game.summary())


class Watched(Game):
    """A world in which a policy acts."""

    def __init__(self, policy: Any, seed: int, greedy: bool = True) -> None:
        import jax

        super().__init__(policy.env, seed)
        self.policy, self.greedy = policy, greedy
        self._observe, self._mask = jax.jit(policy.env.observe), jax.jit(policy.env.action_mask)

    def begin(self) -> None:
        """A new episode, of which the policy remembers nothing yet."""
        super().begin()
        self.policy.reset()

    def advance(self) -> None:
        """One step."""
        obs, mask = self._observe(self.state), self._mask(self.state)
        if self.greedy:
            self._act(self.policy(obs, mask))
        else:
            key = self._fold(self._fold(self._episode_key, self.state.time), 1)
            self._act(self.policy.sample(obs, key, mask))

    def _help(self) -> str:
        return "space stops and goes on"


def options() -> Parser:
    """What may be said about a policy to watch."""
    parser = Parser(
        prog="shoal play",
        usage="shoal play RUN [options]",
        description="Watch a trained policy play, in the terminal. Space stops it, r begins anew, q or Escape quits.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", help="a run folder, or a policy that comes with shoal: zoo:AGENT/ENV")
    parser.add_argument("--member", default="best", metavar="M", help="a number, or `best` (default)")
    parser.add_argument("--which", default="last", choices=("last", "best"), help="last weights (default) or the best")
    parser.add_argument("--sample", action="store_true", help="act as in training, not greedily")
    parser.add_argument("--speed", type=whole_number, default=15, metavar="N", help="steps a second (default 15)")
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="of the first episode (default 0)")
    return parser


def _arguments(words: list[str]) -> argparse.Namespace:
    arguments = options().parse_all(words)
    if arguments.speed < 1:
        raise ValueError(f"--speed {arguments.speed} must be at least 1 step a second.")
    return arguments


def _policy(arguments: argparse.Namespace) -> Any:
    from shoal.cli.runs import member_number
    from shoal.training.result import load
    from shoal.viz.videos import has_picture

    member = arguments.member if arguments.member == "best" else member_number(arguments.member)
    policy = load(arguments.run, member, arguments.which)
    if not has_picture(policy.env):
        raise ValueError(f"{arguments.run} plays a world that has no picture to look at.")
    return policy
