"""Say which of ten classes a picture shows: a classification task as a bandit with episodes of one step."""

import abc
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from shoal.canvas import BLACK, WHITE, Canvas
from shoal.core.env import Key, State, Transition
from shoal.core.spaces import Discrete
from shoal.core.struct import struct
from shoal.envs.bsuite.task import Task, as_real

CLASSES = 10
# Pixels are multiplied by this, not divided by 255: XLA would replace the division by this product, but NumPy, which
# computes the bounds of the observation space, would not.
PER_LEVEL = np.float32(1 / 255)
ZOOM = 8
RIGHT, WRONG = (60, 150, 90), (214, 69, 65)


@struct
class ImageBanditState(State):
    """The index of the picture, the answer, and the number of wrong answers so far."""

    picture: Int[Array, ""]
    answer: Int[Array, ""]  # -1 before the answer
    wrong: Int[Array, ""]  # in all episodes so far


@struct
class ImageBandit(Task):
    """The base class of image bandits. Subclasses define the pictures (`data`) and their observation (`shown`)."""

    reset_every: ClassVar[int] = 1
    COUNTERS = ("wrong",)

    @abc.abstractmethod
    def data(self) -> tuple[UInt8[np.ndarray, "N H W"], UInt8[np.ndarray, "N"]]:
        """All pictures [N, H, W], 0 to 255, and the class of each [N]. Host arrays: constants of the program."""

    @abc.abstractmethod
    def shown(self, pixels: UInt8[Array, "H W"]) -> Float[Array, "H W"]:
        """The observation of a picture."""

    @property
    def longest_episode(self) -> int:
        """One step."""
        return 1

    @property
    def action_space(self) -> Discrete:
        """One action for each class."""
        return Discrete(CLASSES)

    def init(self, key: Key) -> ImageBanditState:
        """The first state: a uniformly random picture."""
        picture = jax.random.randint(key, (), 0, len(self.data()[1]))
        return ImageBanditState(jnp.int32(0), picture, jnp.int32(-1), jnp.int32(0))

    def transition(self, state: ImageBanditState, action: Int[Array, ""], noise: None) -> Transition[ImageBanditState]:
        """Compare the answer with the class of the picture; the episode ends."""
        del noise
        label = jnp.asarray(self.data()[1]).at[state.picture].get(mode="promise_in_bounds")
        right = action.astype(jnp.int32) == label.astype(jnp.int32)
        state = state.replace(answer=action.astype(jnp.int32), wrong=state.wrong + (~right).astype(jnp.int32))
        return state, jnp.where(right, jnp.float32(1), jnp.float32(-1)), jnp.bool_(True), {}

    def observe(self, state: ImageBanditState) -> Float[Array, "H W"]:
        """The picture; zeros after the answer."""
        pixels = jnp.asarray(self.data()[0]).at[state.picture].get(mode="promise_in_bounds")
        return jnp.where(state.time == 0, self.shown(pixels), jnp.float32(0))

    def bsuite_info(self, state: ImageBanditState) -> dict[str, Float[Array, ""]]:
        """The regret: 2 for each wrong answer."""
        return {"total_regret": 2.0 * as_real(state.wrong)}

    def render(self, state: ImageBanditState) -> UInt8[np.ndarray, "H W 3"]:
        """The picture, enlarged; below it the answer, in green if it is right, else in red with the true class."""
        images, labels = self.data()
        pixels, label = images[int(state.picture)], int(labels[int(state.picture)])
        large = np.kron(255 - pixels, np.ones((ZOOM, ZOOM), np.uint8))
        height, width = large.shape
        canvas = Canvas(width, height + 30)
        answer = int(state.answer)
        words, color = f"this is a {label}", BLACK
        if answer >= 0:
            words = f"{answer}: right" if answer == label else f"{answer}: wrong, it is {label}"
            color = RIGHT if answer == label else WRONG
        canvas.text((width / 2, height + 15), words, color, 14, "mm")
        picture = canvas.pixels()
        picture[:height] = np.minimum(large[..., None], np.array(WHITE, np.uint8))
        return picture
