"""Memory chain: observe some bits, wait, then repeat one of them.

Source: bsuite 0.3.6 `environments/memory_chain.py`, step for step.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from shoal.canvas import BLACK, WHITE, Canvas, box
from shoal.core.env import Key, State, Transition
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct
from shoal.envs.bsuite.experiments import experiment
from shoal.envs.bsuite.task import Task, as_real, longest, shortest
from shoal.envs.checks import check_range

LIT, DARK, HIDDEN, ASKED = (246, 196, 68), (58, 64, 90), (208, 212, 218), (214, 69, 65)


@struct
class MemoryChainState(State):
    """The bits, and the index of the bit that must be repeated."""

    context: Bool[Array, "bits"]
    query: Int[Array, ""]  # index of the bit to repeat
    perfect: Int[Array, ""]  # episodes with the right answer so far
    wrong: Int[Array, ""]  # episodes with a wrong answer so far


@experiment("memory_len", aliases={4: "MemoryChain-bsuite"}, num_bits=1)
@experiment("memory_size", memory_length=2)
@struct
class MemoryChain(Task):
    """The first observation shows `num_bits` random bits; after `memory_length` steps repeat one of them.

    Action: Discrete(2); only the last action counts: the value of the bit.

    Observation: Box(`num_bits` + 2), float32

    | i     | quantity                                                                  | low | high         |
    |-------|---------------------------------------------------------------------------|-----|--------------|
    | 0     | the fraction of `memory_length` that is left                              | 0   | 1            |
    | 1     | index of the bit to repeat, shown before the answer; 0 at all other times | 0   | num_bits - 1 |
    | 2 ... | the bits as -1 and 1; shown at the start, 0 at all other times            | -1  | 1            |

    As in bsuite, every observation shows the time before the step that led to it, so the first one occurs twice.

    Reward: 0; on the last step 1 for the right bit, -1 for the wrong one.
    Start: random bits, and a random index of the bit to repeat.
    End: terminated after `memory_length` + 1 steps.
    Differences from bsuite: the observation has shape (num_bits + 2,), not (1, num_bits + 2).
    `MemoryChain-bsuite` is `bsuite/memory_len/4`, which has gymnax's settings: length 5, one bit.
    """

    COUNTERS = ("perfect", "wrong")

    memory_length: Number = 5
    num_bits: int = static(1)

    def __post_init__(self) -> None:
        check_range(self, "memory_length", low=1, whole=True)
        check_range(self, "num_bits", low=1, whole=True)

    @property
    def reset_every(self) -> int:  # type: ignore[override]  # depends on the length
        """The number of steps of every episode (of the shortest one in a population)."""
        return shortest(self.memory_length, 1) + 1

    @property
    def longest_episode(self) -> int:
        """The number of steps of every episode (of the longest one in a population)."""
        return longest(self.memory_length, 100) + 1

    @property
    def observation_space(self) -> Box:
        """Time, index, bits."""
        bits = (1,) * self.num_bits
        return Box((0, 0, *(-bit for bit in bits)), (1, self.num_bits - 1, *bits), (self.num_bits + 2,))

    @property
    def action_space(self) -> Discrete:
        """The bit: 0 or 1."""
        return Discrete(2)

    def init(self, key: Key) -> MemoryChainState:
        """The first state: random bits and a random index."""
        k_bits, k_query = jax.random.split(key)
        context = jax.random.bernoulli(k_bits, 0.5, (self.num_bits,))
        query = jax.random.randint(k_query, (), 0, self.num_bits)
        return MemoryChainState(jnp.int32(0), context, query, jnp.int32(0), jnp.int32(0))

    def transition(self, state: MemoryChainState, action: Int[Array, ""], noise: None) -> Transition[MemoryChainState]:
        """Wait, or compare the answer with the bit on the last step."""
        del noise
        bits = jnp.arange(self.num_bits, dtype=jnp.int32)
        right = action.astype(jnp.bool_) == jnp.any(state.context & (bits == state.query))
        done = state.time > self.memory_length
        state = state.replace(
            perfect=state.perfect + (done & right).astype(jnp.int32),
            wrong=state.wrong + (done & ~right).astype(jnp.int32),
        )
        reward = jnp.where(done, jnp.where(right, jnp.float32(1), jnp.float32(-1)), jnp.float32(0))
        return state, reward, done, {}

    def observe(self, state: MemoryChainState) -> Float[Array, "D"]:
        """Time, index and bits; index and bits are 0 when they are not shown."""
        shown = jnp.maximum(state.time - 1, 0)
        length = jnp.asarray(self.memory_length)
        left = (length - shown).astype(jnp.float32) / length.astype(jnp.float32)
        query = jnp.where(shown == length - 1, state.query, 0).astype(jnp.float32)
        bits = jnp.where(shown == 0, 2 * state.context.astype(jnp.float32) - 1, 0)
        return jnp.concatenate([jnp.stack([left, query]), bits])

    def bsuite_info(self, state: MemoryChainState) -> dict[str, Float[Array, ""]]:
        """The number of right answers, and the regret: 2 for each wrong answer."""
        return {"total_perfect": as_real(state.perfect), "total_regret": 2.0 * as_real(state.wrong)}

    def render(self, state: MemoryChainState) -> UInt8[np.ndarray, "H W 3"]:
        """The bits as lamps, gray while they are not shown; a red frame around the bit to repeat; the time below."""
        shown, length = max(int(state.time) - 1, 0), int(self.memory_length)
        columns = min(self.num_bits, 10)
        rows = -(-self.num_bits // columns)
        canvas = Canvas(max(60 * columns, 240), 60 * rows + 50, window=(0, 60 * rows + 50, max(60 * columns, 240), 0))
        for bit, lit in enumerate(np.asarray(state.context).tolist()):
            x, y = 60 * (bit % columns) + 30, 60 * (bit // columns) + 30
            if shown == length - 1 and bit == int(state.query):
                canvas.polygon(box(x - 28, y - 28, x + 28, y + 28), ASKED)
                canvas.polygon(box(x - 24, y - 24, x + 24, y + 24), WHITE)
            canvas.circle((x, y), 20, HIDDEN if shown else LIT if lit else DARK)
        canvas.text((10, 60 * rows + 25), f"{max(length - shown, 0)} of {length} steps left", BLACK, 16, "lm")
        return canvas.pixels()
