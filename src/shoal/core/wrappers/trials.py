"""A wrapper that joins several episodes of one task to one long episode, for meta-learning (RL^2)."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.env import Env, Observation, State, episode_limit
from shoal.core.keys import Key
from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space, choice_sizes
from shoal.core.struct import Number, static, struct, to_arrays
from shoal.core.wrappers.base import Wrapper
from shoal.core.wrappers.randomize import Randomize, check_sample


@struct
class TrialsState(State):
    """The state of the present episode, the first states of all episodes, and what the last step did."""

    inner: State  # `inner.time` counts the steps of the present episode, `time` those of the trial
    env: Env | None  # the task: the environment sampled for this trial; None where it is always the same
    starts: State  # the first states of all episodes of this trial, on a leading axis
    episode: Int[Array, ""]  # the number of episodes that have ended
    action: Any  # the last action, as it is observed; zeros at the start
    reward: Float[Array, ""]  # the last reward; 0 at the start
    done: Bool[Array, ""]  # whether the last step ended an episode


@struct
class Trials(Wrapper):
    """Play several episodes of one task as one long episode, a trial. The next trial has another task.

    A task is an environment. `sample(key)` returns one for each trial, of the same class and spaces as `env`. All
    `episodes` (default 2) of the trial are played in it, each from another first state. What makes a task, such as a
    goal or the arms of a bandit, must be in fields of the environment, not in the state that `init` samples. Without
    `sample` the task is always `env`. `sample` is part of the program: define it once.

    Observation: a Dict of

    | part          | what                                                                                  |
    |---------------|---------------------------------------------------------------------------------------|
    | `observation` | the inner observation; after an episode's last step the first one of the next episode |
    | `action`      | the last action: choices one-hot (bool), numbers clipped to their bounds              |
    | `reward`      | the last reward, float32                                                              |
    | `done`        | whether the last step ended an episode, bool                                          |

    `action`, `reward` and `done` are zero at the start of a trial. `FlattenObservation(Trials(...))` makes a vector.
    The end of an inner episode, terminated or truncated, does not end the trial; the end of the last one terminates
    it, because another task follows. The final observation is then that of the last episode. If episodes have a time
    limit, that of the trial is `episodes` times as long.

        def task(key):
            return FourRooms(goal_row=jax.random.randint(key, (), 8, 12), goal_column=3)

        Trials(FourRooms(), task, episodes=4)

    The first states of all episodes are sampled with the task, because sampling one at the end of an episode would
    mean sampling one at every step. The state holds them, so many episodes of a large environment need memory.
    Source: Duan et al. 2016, "RL^2: fast reinforcement learning via slow reinforcement learning", section 2.2.
    Raises ValueError around `Randomize`, which would sample another task for every episode, and TypeError for actions
    that are tuples or dicts.
    """

    sample: Callable[[Key], Env] | None = static(None)
    episodes: int = static(2)

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise ValueError(f"Trials needs a number of episodes, 1 or more, not episodes={self.episodes}.")
        inner = self.env
        while isinstance(inner, Wrapper):
            if isinstance(inner, Randomize):
                raise ValueError(
                    "Trials cannot wrap Randomize, which samples another task for every episode. Give Trials the "
                    "function instead: Trials(env.env, env.sample)."
                )
            inner = inner.env
        _action_part(self.env.action_space)

    @property
    def reset_every(self) -> int:  # type: ignore[override]  # as long as the episodes together
        """Steps between two ends of a trial (see `Env.reset_every`)."""
        return self.episodes * self.env.reset_every

    @property
    def max_steps(self) -> Number | None:  # type: ignore[override]  # the same
        """The time limit of all episodes together."""
        if self.env.max_steps is None or self.episodes < 1:  # read before `__post_init__` rejects `episodes < 1`
            return None
        return self.episodes * self.env.max_steps

    @property
    def limit_range(self) -> tuple[Number, Number] | None:
        """`max_steps`, twice. If it is None, a trial has no time limit: each of its episodes may have one."""
        return None if self.max_steps is None else (self.max_steps, self.max_steps)

    @property
    def longest_episode(self) -> int | None:
        """The largest number of steps of all episodes together, or None."""
        longest = episode_limit(self.env)
        return None if longest is None else self.episodes * longest

    @property
    def observation_space(self) -> Dict:
        """A Dict of the inner observation and the last action, reward and end, as the class describes it."""
        return Dict(
            {
                "observation": self.env.observation_space,
                "action": _action_part(self.env.action_space),
                "reward": Box(-np.inf, np.inf, ()),
                "done": Box(0, 1, (), np.bool_),
            }
        )

    def init(self, key: Key) -> TrialsState:
        """Sample a task and the first state of each of its episodes."""
        k_task, k_starts = jax.random.split(key)
        task = None if self.sample is None else to_arrays(self.sample(k_task))
        if task is not None:
            check_sample(self.env, task)
        starts = jax.vmap((task or self.env).init)(jax.random.split(k_starts, self.episodes))
        part = _action_part(self.env.action_space)
        return TrialsState(
            time=jnp.int32(0),
            inner=jax.tree.map(lambda x: x[0], starts),
            env=task,
            starts=starts,
            episode=jnp.int32(0),
            action=jnp.zeros(part.shape, part.dtype),
            reward=jnp.float32(0),
            done=jnp.bool_(False),
        )

    def noise(self, key: Key) -> Any:
        """Sample the noise of the environment; with `sample`, return the key instead, or None where there is no noise.

        Only the state holds the task, so `transition` samples its noise from this key.
        """
        if self.sample is None:
            return self.env.noise(key)
        return key if jax.tree.leaves(jax.eval_shape(self.env.noise, key)) else None

    def limit_of(self, state: State) -> Number | None:
        """Return `max_steps`, for every trial."""
        del state
        return self.max_steps

    def transition(self, state: TrialsState, action: Any, noise: Any) -> tuple[TrialsState, Any, Any, Any]:
        """Take a step of the present episode. If it ends the episode, the next one begins."""
        task, _ = self.inner_pair(state)
        if self.sample is not None and noise is not None:
            noise = task.noise(noise)
        inner, reward, terminated, _, info = task.advance(state.inner, action, noise)
        limit = self.env.limit_of(inner)  # that of `env` for every task, like the spaces
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

    def inner_pair(self, state: TrialsState) -> tuple[Env, State]:
        """Return the task, and the state of the present episode."""
        return self.env if state.env is None else state.env, state.inner

    def observe(self, state: TrialsState) -> Observation:
        """Return the inner observation with the last action, reward and end of an episode."""
        inner_obs = super().observe(state)
        return {"observation": inner_obs, "action": state.action, "reward": state.reward, "done": state.done}

    def carry_over(self, ended: TrialsState, fresh: TrialsState) -> TrialsState:
        """Return `fresh` with what its task keeps of the last episode's state."""
        task, inner = self.inner_pair(fresh)
        return fresh.replace(inner=task.carry_over(ended.inner, inner))


def _action_part(space: Space) -> Box:
    """Return the space of the last action in observations. It contains zeros, which stand for no action."""
    if isinstance(space, (Discrete, MultiDiscrete)):
        return Box(0, 1, (sum(choice_sizes(space)),), np.bool_)
    if isinstance(space, Box):
        low, high = space.bounds()
        return Box(np.minimum(low, 0), np.maximum(high, 0), space.shape, space.dtype)
    raise TypeError(f"Trials observes the last action, which must be of a Discrete, MultiDiscrete or Box, not {space}.")


def _as_part(space: Space, action: Array) -> Array:
    if isinstance(space, Box):
        return jnp.clip(action, *space.bounds()) if space.dtype != np.bool_ else action
    sizes = choice_sizes(space)
    parts = [action] if isinstance(space, Discrete) else [action[i] for i in range(len(sizes))]
    return jnp.concatenate([jax.nn.one_hot(part, n, dtype=jnp.bool_) for part, n in zip(parts, sizes, strict=True)])
