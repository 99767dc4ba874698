"""`shoal play RUN`: watch a trained policy play in the terminal."""

import argparse
from typing import Any

from shoal.cli.game import NEW_EPISODE, Game, play_on_screen
from shoal.cli.parser import read_member

END_SECONDS = 1.0  # how long the end of an episode stays on the screen
SPEED = 15  # steps per second


def watch(options: argparse.Namespace) -> None:
    """Show a policy playing episodes until `q`."""
    speed = SPEED if options.speed is None else options.speed
    if not 1 <= speed <= 1_000_000:
        raise ValueError(f"--speed {speed} must be from 1 to 1,000,000 steps per second.")
    play_on_screen(Watched(_policy(options), options.seed, speed, greedy=not options.sample))


class Watched(Game):
    """An environment in which a policy chooses the actions."""

    def __init__(self, policy: Any, seed: int, speed: int, greedy: bool = True) -> None:
        import jax

        super().__init__(policy.env, seed)
        self.policy, self.speed, self.greedy = policy, speed, greedy
        self.is_paused = False
        self._observe, self._mask = jax.jit(policy.env.observe), jax.jit(policy.env.action_mask)

    def begin(self) -> None:
        """Start a new episode and reset the recurrent carry of the policy."""
        super().begin()
        self.policy.reset()

    @property
    def wait(self) -> float | None:
        """The time until the next step; none while it is paused."""
        return None if self.is_paused else END_SECONDS if self.ended else 1 / self.speed

    def press(self, key: str) -> None:
        """Pause, go on, or start a new episode; without a key take one step, or begin again after the end."""
        if key == "space":
            self.is_paused = not self.is_paused
        elif key in NEW_EPISODE or (self.ended and not self.is_paused):
            self.begin()
        elif not self.is_paused:
            self.advance()

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

    member = read_member(options.member or "best")
    policy = load(options.what, member, options.which or "last", trust_source=options.trust_source)
    if not has_picture(policy.env):
        raise ValueError(f"the environment of {options.what} has no pictures: it defines no render(state).")
    return policy
