"""Several episodes of one task as one long episode: what an agent needs that learns to learn."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.env import Env, Observation, State, episode_limit
from shoal.core.keys import Key
from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from shoal.core.struct import Number, static, struct, to_arrays
from shoal.core.wrappers.base import Wrapper
from shoal.core.wrappers.randomize import Randomize


@struct
class TrialsState(State):
    """The running episode, what the others begin with, and what happened last. The inner clock is the episode's."""

    inner: State
    env: Env | None  # the task: the environment drawn for this trial; None where it is always the same
    starts: State  # the first states of all episodes of this trial, on a leading axis
    episode: Int[Array, ""]  # how many have ended
    action: Any  # the last one, as it is observed; zeros at the start
    reward: Float[Array, ""]  # the last one; 0 at the start
    done: Bool[Array, ""]  # whether the last step ended an episode


@struct
class Trials(Wrapper):
    """Play `episodes` episodes (2) of one task in a row, and call them one: a trial. Then draw another task.

    A task is an environment value. `sample(key)` draws one, of the same class and spaces as `env`, for each trial; all
    episodes of the trial are played in it, each from a first state that its `init` draws. So the task must be in the
    value's fields, not in what `init` draws: give a goal, the arms of a bandit. Without `sample` the task is `env`
    itself, which may differ from member to member of a population. `sample` is part of the program: define it once.

    Observation: a Dict of

    | part          | what                                                                            |
    |---------------|---------------------------------------------------------------------------------|
    | `observation` | what the environment shows; after an episode's last step, its next first state  |
    | `action`      | the last action: choices one-hot (bool), numbers clipped to their bounds        |
    | `reward`      | the last reward, float32                                                        |
    | `done`        | whether the last step ended an episode, bool                                    |

    with zeros at the start of a trial, when nothing has happened (`FlattenObservation(Trials(...))` makes a vector).
    An episode's end, terminated or truncated, is a step of the trial like any other; the last one terminates the trial,
    because what follows is another task. The final observation is then that of the episode that ended. With a time
    limit on episodes the trial has one, `episodes` times as long, which it never reaches without being terminated too.

        def task(key):
            return FourRooms(goal_row=jax.random.randint(key, (), 8, 12), goal_column=3)

        Trials(FourRooms(), task, episodes=4)

    First states are drawn with the task, not when an episode ends, because then every step would have to draw one. They
    are carried in the state, so many episodes of a large world cost memory.
    Source: Duan et al. 2016, "RL^2: fast reinforcement learning via slow reinforcement learning", section 2.2.
    Raises ValueError around `Randomize`, which would draw another task for every episode, and TypeError for actions
    that are tuples or dicts.
    """

    sample: Callable[[Key], Env] | None = static(None)
    episodes: int = static(2)

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise ValueError(f"Trials needs a number of episodes, 1 or more, not episodes={self.episodes}.")
        inside = self.env
        while isinstance(inside, Wrapper):
            if isinstance(inside, Randomize):
                raise ValueError(
                    "Randomize draws another task for every episode, so Trials cannot go around it. Give Trials the "
                    "function instead: Trials(env.env, env.sample)."
                )
            inside = inside.env
        _action_part(self.env.action_space)

    @property
    def reset_every(self) -> int:  # type: ignore[override]  # as long as the episodes together
        """How often a trial ends."""
        return self.episodes * self.env.reset_every

    @property
    def max_steps(self) -> Number | None:  # type: ignore[override]  # the same
        """The time limit of all episodes together."""
        if self.env.max_steps is None or self.episodes < 1:  # no episode at all is refused in a moment
            return None
        return self.episodes * self.env.max_steps

    @property
    def longest_episode(self) -> int | None:
        """As long as the episodes together."""
        longest = episode_limit(self.env)
        return None if longest is None else self.episodes * longest

    @property
    def observation_space(self) -> Dict:
        """The inner space, and what happened last."""
        return Dict(
            {
                "observation": self.env.observation_space,
                "action": _action_part(self.env.action_space),
                "reward": Box(-np.inf, np.inf, ()),
                "done": Box(0, 1, (), np.bool_),
            }
        )

    def init(self, key: Key) -> TrialsState:
        """A task, and the first state of each of its episodes."""
        k_task, k_starts = jax.random.split(key)
        drawn = None if self.sample is None else self._checked(to_arrays(self.sample(k_task)))
        starts = jax.vmap((drawn or self.env).init)(jax.random.split(k_starts, self.episodes))
        part = _action_part(self.env.action_space)
        return TrialsState(
            time=jnp.int32(0),
            inner=jax.tree.map(lambda x: x[0], starts),
            env=drawn,
            starts=starts,
            episode=jnp.int32(0),
            action=jnp.zeros(part.shape, part.dtype),
            reward=jnp.float32(0),
            done=jnp.bool_(False),
        )

    def noise(self, key: Key) -> Any:
        """The noise of the environment; of one that only the state knows the key for it, or None if it needs none."""
        if self.sample is None:
            return self.env.noise(key)
        return key if jax.tree.leaves(jax.eval_shape(self.env.noise, key)) else None

    def transition(self, state: TrialsState, action: Any, noise: Any) -> tuple[TrialsState, Any, Any, Any]:
        """A step of the running episode; if that was its last, the next one begins."""
        task = self._task(state)
        if self.sample is not None and noise is not None:
            noise = task.noise(noise)
        inner, reward, terminated, _, info = task.advance(state.inner, action, noise)
        limit = self.env.max_steps  # every task's, like the spaces
        done = terminated if limit is None else terminated | (inner.time >= limit)
        episode = state.episode + done.astype(jnp.int32)
        is_over = episode >= self.episodes
        following = jnp.minimum(episode, self.episodes - 1)
        fresh = task.carry_over(inner, jax.tree.map(lambda x: x[following], state.starts))
        state = state.replace(
            inner=jax.tree.map(lambda new, old: jnp.where(done & ~is_over, new, old), fresh, inner),
            episode=episode,
            action=_as_part(self.env.action_space, action),
            reward=reward,
            done=done,
        )
        return state, reward, is_over, info

    def observe(self, state: TrialsState) -> Observation:
        """What the environment shows, and what happened last."""
        seen = self._task(state).observe(state.inner)
        return {"observation": seen, "action": state.action, "reward": state.reward, "done": state.done}

    def action_mask(self, state: TrialsState) -> Any:
        """The mask of the environment in the running episode."""
        return self._task(state).action_mask(state.inner)

    def carry_over(self, ended: TrialsState, fresh: TrialsState) -> TrialsState:
        """What the environment drawn afresh keeps of the last episode's state."""
        return fresh.replace(inner=self._task(fresh).carry_over(ended.inner, fresh.inner))

    def render(self, state: TrialsState) -> Any:
        """The picture of the running episode."""
        return self._task(state).render(state.inner)

    def _task(self, state: TrialsState) -> Env:
        return self.env if state.env is None else state.env

    def _checked(self, drawn: Env) -> Env:
        expected, given = jax.tree.structure(self.env), jax.tree.structure(drawn)
        if expected != given:
            raise ValueError(f"sample must draw an environment with the structure of env, {expected}, not {given}.")
        return drawn


def _action_part(space: Space) -> Box:
    """Where the last action lies as it is observed. Zeros, for none, always do."""
    if isinstance(space, (Discrete, MultiDiscrete)):
        return Box(0, 1, (sum(_choices(space)),), np.bool_)
    if isinstance(space, Box):
        low, high = space.bounds()
        return Box(np.minimum(low, 0), np.maximum(high, 0), space.shape, space.dtype)
    raise TypeError(f"Trials shows the last action, and cannot show one of {space}: it takes choices and numbers.")


def _as_part(space: Space, action: Array) -> Array:
    if isinstance(space, Box):
        return jnp.clip(action, *space.bounds()) if space.dtype != np.bool_ else action
    sizes = _choices(space)
    parts = [action] if isinstance(space, Discrete) else [action[i] for i in range(len(sizes))]
    return jnp.concatenate([jax.nn.one_hot(part, n, dtype=jnp.bool_) for part, n in zip(parts, sizes, strict=True)])


def _choices(space: Space) -> tuple[int, ...]:
    return (space.n,) if isinstance(space, Discrete) else space.nvec  # type: ignore[union-attr]  # only these two
