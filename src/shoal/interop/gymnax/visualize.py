"""Animations of episodes with gymnax's `Visualizer`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shoal.interop.gymnax.face import Params

FPS = {"Pendulum-v1": 20, "CartPole-v1": 20, "Acrobot-v1": 20, "MountainCar-v0": 20, "MountainCarContinuous-v0": 20}
OTHERS = 10  # frames per second, as gymnax plays them


class Visualizer:
    """Write the states of an episode as a GIF: `Visualizer(env, params, states).animate("episode.gif")`."""

    def __init__(
        self,
        env_arg: Any,
        env_params_arg: Params | None,
        state_seq_arg: Sequence[Any],
        reward_seq_arg: Any = None,
    ) -> None:
        """Show T states of an environment, or of a wrapper around it.

        `reward_seq_arg` [T], the return so far, is accepted and not drawn: shoal's pictures have no title.
        """
        del reward_seq_arg
        self.env, self.env_params = env_arg, env_params_arg
        self.state_seq = [_unwrapped(state) for state in state_seq_arg]

    def animate(self, save_fname: str | Path | None = "test.gif", view: bool = False) -> Path:
        """Write the animation and return its path. Raises ValueError for another format than GIF, and for `view`."""
        if view or save_fname is None or Path(save_fname).suffix.lower() != ".gif":
            raise ValueError(
                f"animate writes a GIF file and opens no window: name one, not {save_fname!r}, view={view}."
            )
        from PIL import Image

        first, *others = (Image.fromarray(self.env.render(state, self.env_params)) for state in self.state_seq)
        duration = 1000 // FPS.get(self.env.name, OTHERS)  # milliseconds
        first.save(save_fname, save_all=True, append_images=others, duration=duration, loop=0)
        return Path(save_fname)


def _unwrapped(state: Any) -> Any:
    while hasattr(state, "env_state"):
        state = state.env_state
    return state
