"""`shoal play RUN`: watch a trained policy play in the terminal."""

import argparse
from typing import Any

from shoal.cli.game import NEW_EPISODE, QUIT, Game
from shoal.cli.parser import member_number
from shoal.cli.screen import Screen

END_SECONDS = 1.0  # how long the end of an episode stays on the screen
SPEED = 15  # steps per second


def watch(options: argparse.Namespace) -> None:
    """Show a policy playing episodes until `q`."""
    speed = SPEED if options.speed is None else options.speed
    if not 1 <= speed <= 1_000_000:
        raise ValueError(f"--speed {speed} must be from 1 to 1,000,000 steps per second.")
    game = Watched(_policy(options), options.seed, greedy=not options.sample)
    with Screen() as screen:
        screen.show(None, ["compiling ..."])
        game.begin()
        is_paused = False
        while True:
            picture, small = game.picture(screen.size)
            screen.show(picture, game.lines(small))
            wait = None if is_paused else END_SECONDS if game.ended else 1 / speed
            key = screen.key(wait)
            if key in QUIT:
                break
            if key == "space":
                is_paused = not is_paused
            elif key in NEW_EPISODE or (game.ended and not is_paused):
                game.begin()
            elif not is_paused:
                game.advance()
    print(game.summary())


class Watched(Game):
    """An environment in which a policy chooses the actions."""

    def __init__(self, policy: Any, seed: int, greedy: bool = True) -> None:
        import jax

        super().__init__(policy.env, seed)
        self.policy, self.greedy = policy, greedy
        self._observe, self._mask = jax.jit(policy.env.observe), jax.jit(policy.env.action_mask)

    def begin(self) -> None:
        """Start a new episode and reset the recurrent carry of the policy."""
        super().begin()
        self.policy.reset()

    def advance(self) -> None:
        """Take one step with the action of the policy."""
        obs, mask = self._observe(self.state), self._mask(self.state)
        if self.greedy:
            self._act(self.policy(obs, mask))
        else:
            key = self._fold(self._fold(self._episode_key, self.state.time), 1)
            self._act(self.policy.sample(obs, key, mask))

    def _help(self) -> str:
        return "space pauses and continues"


def _policy(options: argparse.Namespace) -> Any:
    from shoal.training.result import load
    from shoal.viz.videos import has_picture

    member = "best" if options.member in (None, "best") else member_number(options.member)
    policy = load(options.what, member, options.which or "last", trust_source=options.trust_source)
    if not has_picture(policy.env):
        raise ValueError(f"the environment of {options.what} has no pictures: it defines no render(state).")
    return policy
