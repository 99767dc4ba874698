"""An environment played in the terminal: keys or a policy choose the actions, and every state is shown."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from shoal.cli.screen import Screen, Size, shrunk

TEXT_LINES = 4
SMALLEST_TILE, LARGEST_TILE = 4, 32
QUIT, NEW_EPISODE = ("q", "escape"), ("r", "backspace")
# The keys of MiniGrid's manual control, and letters that are easier to remember.
LEVEL_KEYS = {
    "left": 0, "right": 1, "up": 2, "p": 3, "tab": 3, "pageup": 3, "d": 4, "pagedown": 4, "space": 5, "t": 5,
    "enter": 6,
}  # fmt: skip
KEYS_OF_NAMES = {"left": "left", "right": "right", "up": "up", "down": "down", "fire": "space"}
LEVEL_HELP = "arrows walk  p pick up  d drop  space toggle  enter done"


class Game:
    """One environment, played with keys for any number of episodes. `returns` has one entry per episode."""

    def __init__(self, env: Any, seed: int) -> None:
        import jax

        from shoal.core.keys import make_key
        from shoal.core.wrappers.base import Wrapper
        from shoal.grid.level import Level

        self.env, self.is_level = env, isinstance(env, Level)
        inner = env
        while isinstance(inner, Wrapper):
            inner = inner.env
        self.has_level_keys = isinstance(inner, Level)
        self.names = inner.action_names
        self.keys = keys_of(env.action_space.n, inner) if hasattr(env.action_space, "n") else {}
        self._fold, self._key = jax.random.fold_in, make_key(seed)
        self._reset, self._step = jax.jit(env.reset), jax.jit(env.step)
        self.returns: list[float] = []
        self.ended = ""

    def begin(self) -> None:
        """Start a new episode."""
        self._episode_key = self._fold(self._key, len(self.returns))
        _, self.state = self._reset(self._episode_key)
        self.returns.append(0.0)
        self.reward, self.ended = 0.0, ""

    @property
    def wait(self) -> float | None:
        """The seconds after which `press("")` is called; None: a key is waited for."""
        return None

    def press(self, key: str) -> None:
        """Take the action of a key, or start a new episode; ignore any other key."""
        if key in NEW_EPISODE or self.ended:
            self.begin()
        elif key in self.keys:
            self._act(self.keys[key])

    def _act(self, action: Any) -> None:
        key = self._fold(self._episode_key, self.state.time + 1)
        typed = np.asarray(action, self.env.action_space.dtype)
        _, self.state, reward, terminated, truncated, _ = self._step(key, self.state, typed)
        self.reward = float(reward)
        self.returns[-1] += self.reward
        self.ended = "terminated" if terminated else "out of time" if truncated else ""

    def picture(self, size: Size) -> tuple[Any, bool]:
        """A picture of the state that fits into a terminal of this size, and whether its tiles are too small to see."""
        room = Size(size.columns, max(1, size.rows - TEXT_LINES))
        if not self.is_level:
            return shrunk(np.asarray(self.env.render(self.state)), room), False
        width, height = (self.env.view_size,) * 2 if self.env.agent_pov else self.env.shape
        tile = min(room.columns // width, 2 * room.rows // height)
        fitting = self.env.replace(tile_size=min(max(tile, 1), LARGEST_TILE))
        picture = np.asarray(fitting.render(self.state))
        return (picture if tile else shrunk(picture, room)), tile < SMALLEST_TILE

    def lines(self, small: bool) -> list[str]:
        """The lines of text below the picture."""
        steps = self.env.limit_of(self.state)
        limit = "" if steps is None else f"/{int(steps)}"
        count = f"step {int(self.state.time)}{limit}  reward {self.reward:.4g}  return {self.returns[-1]:.4g}"
        task = self.env.mission_text(self.state) or type(self.env).__name__
        hint = "enlarge the window, or add --env.agent-pov true" if small else self._help()
        return [task, f"{self.ended}: press any key  {count}" if self.ended else count, f"{hint}  r new  q quit"]

    def _help(self) -> str:
        if self.has_level_keys:
            return LEVEL_HELP
        if self.names:
            return "actions: " + "  ".join(f"{number} {name}" for number, name in enumerate(self.names))
        return f"actions: keys 0 to {self.env.action_space.n - 1}"

    def summary(self) -> str:
        """The returns of all episodes, printed after the screen is closed."""
        numbers = ", ".join(f"{number:.4g}" for number in self.returns)
        return f"{len(self.returns)} episode{'s' * (len(self.returns) != 1)} of {type(self.env).__name__}: {numbers}"


def play_on_screen(game: Game) -> None:
    """Show each state of a game, and give it the keys that are pressed, until `q`. Print the returns at the end."""
    with Screen() as screen:
        screen.show(None, ["compiling ..."])
        game.begin()
        while True:
            picture, small = game.picture(screen.size)
            screen.show(picture, game.lines(small))
            key = screen.key(game.wait)
            if key in QUIT:
                break
            game.press(key)
    print(game.summary())


def keys_of(num_actions: int, env: Any) -> Mapping[str, int]:
    """The action of each key: digits, and arrows or the space bar for actions named after a direction or `fire`.

    Levels have the keys of MiniGrid's manual control instead.
    """
    from shoal.grid.level import Level

    if isinstance(env, Level):
        return {key: action for key, action in LEVEL_KEYS.items() if action < num_actions}
    named = {KEYS_OF_NAMES[name]: action for action, name in enumerate(env.action_names) if name in KEYS_OF_NAMES}
    return {**named, **{str(i): i for i in range(min(num_actions, 10))}}
