"""Umbrella chain: take an umbrella or not; only the reward at the end depends on it.

Source: bsuite 0.3.6 `environments/umbrella_chain.py`, step for step.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8, UInt32

from shoal.canvas import BLACK, Canvas, box
from shoal.core.env import Key, State, Transition
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct
from shoal.envs.bsuite.experiments import experiment
from shoal.envs.bsuite.task import Task, as_real, longest, shortest
from shoal.envs.checks import check_range

GRAY_SKY, BLUE_SKY, RAIN, SUN = (158, 170, 184), (176, 216, 245), (70, 100, 150), (250, 200, 60)
CANOPY, HANDLE, PERSON, STREET, DONE = (200, 60, 70), (90, 70, 60), (50, 55, 70), (120, 120, 125), (60, 150, 90)


@struct
class UmbrellaChainState(State):
    """Whether an umbrella is needed, whether it was taken, and the distractors."""

    need: Bool[Array, ""]
    has: Bool[Array, ""]
    distractors: UInt32[Array, "W"]  # random bits, 32 per word
    wrong: Int[Array, ""]  # episodes with the wrong choice so far


@experiment("umbrella_distract", chain_length=20)
@experiment("umbrella_length", aliases={9: "UmbrellaChain-bsuite"})
@struct
class UmbrellaChain(Task):
    """The first action takes an umbrella or not. After `chain_length` steps the reward says whether it was right.

    Action: Discrete(2); the first action takes the umbrella (1) or not (0), all later actions do nothing.

    Observation: Box(3 + `n_distractor`), float32

    | i     | quantity                                 | low | high |
    |-------|------------------------------------------|-----|------|
    | 0     | whether an umbrella is needed            | 0   | 1    |
    | 1     | whether the umbrella was taken           | 0   | 1    |
    | 2     | fraction of `chain_length` that is left  | 0   | 1    |
    | 3 ... | distractors: random bits, new every step | 0   | 1    |

    Reward: on the last step 1 if the choice was right (an umbrella if and only if it is needed), else -1; on all other
    steps -1 or 1 at random.
    Start: need, umbrella and distractors are random bits; the first action replaces the umbrella bit.
    End: terminated after `chain_length` steps.
    Noise: `n_distractor` + 1 random bits, in words of 32: the distractors, then one bit for the reward.
    Differences from bsuite: the observation has shape (3 + n_distractor,), not (1, 3 + n_distractor).
    `UmbrellaChain-bsuite` is `bsuite/umbrella_length/9`: gymnax's length of 10, with bsuite's 20 distractors instead of
    gymnax's none.
    """

    COUNTERS = ("wrong",)

    chain_length: Number = 10
    n_distractor: int = static(0)

    def __post_init__(self) -> None:
        check_range(self, "chain_length", low=1, whole=True)
        check_range(self, "n_distractor", low=0, high=10_000, whole=True)

    @property
    def reset_every(self) -> int:  # type: ignore[override]  # depends on the length
        """The number of steps of every episode (of the shortest one in a population)."""
        return shortest(self.chain_length, 1)

    @property
    def longest_episode(self) -> int:
        """The number of steps of every episode (of the longest one in a population)."""
        return longest(self.chain_length, 100)

    @property
    def optimal_return(self) -> int:
        """The expected return of the right choice: the random rewards before the end have mean 0."""
        return 1

    @property
    def observation_space(self) -> Box:
        """Fractions and bits."""
        return Box(0, 1, (3 + self.n_distractor,))

    @property
    def action_space(self) -> Discrete:
        """Do not take the umbrella, take it."""
        return Discrete(2)

    def init(self, key: Key) -> UmbrellaChainState:
        """The first state: all bits are random."""
        k_weather, k_distractors = jax.random.split(key)
        need, has = jax.random.bernoulli(k_weather, 0.5, (2,))
        return UmbrellaChainState(jnp.int32(0), need, has, self.noise(k_distractors), jnp.int32(0))

    def noise(self, key: Key) -> UInt32[Array, "W"]:
        """A random bit for every distractor, then one for the reward, in words of 32 bits."""
        return jax.random.bits(key, (self.n_distractor // 32 + 1,), jnp.uint32)

    def transition(
        self, state: UmbrellaChainState, action: Int[Array, ""], noise: UInt32[Array, "W"]
    ) -> Transition[UmbrellaChainState]:
        """Apply the choice on the first step; on the last step reward it; on all others give a random reward."""
        has = jnp.where(state.time == 1, action.astype(jnp.bool_), state.has)
        done, right = state.time >= self.chain_length, has == state.need
        coin = (noise[-1] >> np.uint32(self.n_distractor % 32)) & np.uint32(1)
        good = jnp.where(done, right, coin.astype(jnp.bool_))
        wrong = state.wrong + (done & ~right).astype(jnp.int32)
        state = state.replace(has=has, distractors=noise, wrong=wrong)
        return state, jnp.where(good, jnp.float32(1), jnp.float32(-1)), done, {}

    def observe(self, state: UmbrellaChainState) -> Float[Array, "D"]:
        """Need, umbrella, time, distractors."""
        length = jnp.asarray(self.chain_length)
        left = (length - state.time).astype(jnp.float32) / length.astype(jnp.float32)
        plain = jnp.stack([state.need.astype(jnp.float32), state.has.astype(jnp.float32), left])
        bit = np.arange(self.n_distractor, dtype=np.uint32)
        words = state.distractors[bit // 32] if self.n_distractor > 31 else state.distractors
        return jnp.concatenate([plain, ((words >> (bit % 32)) & np.uint32(1)).astype(jnp.float32)])

    def bsuite_info(self, state: UmbrellaChainState) -> dict[str, Float[Array, ""]]:
        """The regret: 2 for each wrong choice."""
        return {"total_regret": 2.0 * as_real(state.wrong)}

    def render(self, state: UmbrellaChainState) -> UInt8[np.ndarray, "240 480 3"]:
        """A person on a street, with an umbrella or without, in rain or sun; distractors above, the time below."""
        need, has, length = bool(state.need), bool(state.has), int(self.chain_length)
        canvas = Canvas(480, 240, window=(0, 240, 480, 0), background=GRAY_SKY if need else BLUE_SKY)
        walked = 50 + 380 * int(state.time) / length
        if need:
            for drop in range(60):
                x, y = drop * 83 % 480, drop * 47 % 150 + 30
                canvas.line([(x, y), (x - 4, y + 12)], RAIN, 1.5)
        else:
            canvas.circle((430, 60), 26, SUN)
        canvas.polygon(box(0, 240, 480, 200), STREET)
        canvas.polygon(box(50, 222, walked, 216), DONE)
        canvas.circle((walked, 140), 11, PERSON)
        canvas.line([(walked, 152), (walked, 178), (walked - 9, 200)], PERSON, 6)
        canvas.line([(walked, 178), (walked + 9, 200)], PERSON, 6)
        if has:
            arc = np.linspace(np.pi, 2 * np.pi, 24)
            dome = np.stack([walked + 15 + 42 * np.cos(arc), 122 + 34 * np.sin(arc)], axis=1)
            canvas.line([(walked + 3, 160), (walked + 15, 158), (walked + 15, 92)], HANDLE, 3)
            canvas.polygon(dome, CANOPY)
        for bit in range(min(self.n_distractor, 60)):
            lit = int(np.asarray(state.distractors)[bit // 32]) >> (bit % 32) & 1
            canvas.circle((10 + 7.8 * bit, 12), 3, SUN if lit else PERSON)
        canvas.text((240, 231), f"step {int(state.time)} of {length}", BLACK, 13, "mm")
        return canvas.pixels()
