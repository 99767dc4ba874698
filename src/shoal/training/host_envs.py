"""The environments of one member that Python steps: they take T steps with a policy, and can be restored by repetition.

An environment of another library cannot be copied or saved. But its episode follows from the seed of its reset and the
actions since then, so these are kept, and a checkpoint has them.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shoal.agents.rollout_agent import RolloutAgent
from shoal.core.agent import Agent
from shoal.core.errors import Unsuited
from shoal.core.host_env import HostEnv, HostState
from shoal.core.spaces import zeros
from shoal.core.struct import Struct, struct
from shoal.core.wrappers.base import Wrapper
from shoal.rollouts.rollout import EnvStates, Trajectory

LONGEST_KEPT = 30_000  # steps of an episode whose actions are kept; a longer one cannot be restored
# (observations [E], masks [E], step t) -> (actions [E], further outputs to record [E])
Act = Callable[[Any, Any, int], tuple[Any, Any]]


def needs_host(env: Any) -> bool:
    """Return whether Python steps an environment. Raises TypeError for a wrapper of shoal around such a one."""
    if isinstance(env, HostEnv):
        return True
    inner = env
    while isinstance(inner, Wrapper):
        inner = inner.env
    if isinstance(inner, HostEnv):
        raise TypeError(
            f"{type(env).__name__} cannot wrap {type(inner).__name__}, because Python steps that environment: use a "
            f"wrapper of its own library, and register the wrapped environment there."
        )
    return False


def check_learns_on_host(agent: Agent, env: Any) -> None:
    """Raise Unsuited for an agent that cannot learn in an environment that Python steps; TypeError as `needs_host`."""
    if needs_host(env) and not isinstance(agent, RolloutAgent):
        raise Unsuited("Python steps this environment, and the agent does not learn from rollouts of several steps.")


@struct
class Episodes(Struct):
    """The seeds and actions that bring E environments to their present states. All leaves are NumPy arrays."""

    entropy: Any  # [3], the numbers from which the seeds of all episodes follow: of the run, the member, its occupant
    begun: Any  # [E], the number of episodes that each environment has begun
    time: Any  # [E], the steps of its current episode
    actions: Any  # [E, L, ...], the actions of the current episodes

    @classmethod
    def none(cls, env: HostEnv, count: int, entropy: tuple[int, int, int]) -> "Episodes":
        """Of `count` environments that have begun no episode."""
        longest = LONGEST_KEPT if env.max_steps is None else min(int(np.max(np.asarray(env.max_steps))), LONGEST_KEPT)
        longest = longest if env.repeats_episodes else 0
        action = jax.tree.map(lambda x: np.zeros((count, longest, *x.shape), x.dtype), zeros(env.action_space))
        zero = np.zeros(count, np.int32)
        return cls(np.asarray(entropy, np.int64), zero, zero.copy(), action)

    def seed(self, e: int) -> int:
        """The seed of the current episode of environment e."""
        numbers = (*self.entropy.tolist(), e, int(self.begun[e]))
        return int(np.random.SeedSequence(numbers).generate_state(1)[0] >> 1)  # 31 bits, which all environments take


class HostEnvs:
    """E running environments of one member. Arrays are NumPy's, and are changed in place."""

    def __init__(self, env: HostEnv, count: int, entropy: tuple[int, int, int], short_episodes: bool = False) -> None:
        """Start the environments. No episode begins. `short_episodes` is as in `rollouts.rollout.Rollout`."""
        self.env, self.count, self.short_episodes = env, count, short_episodes
        self.simulators = env.open_many(count)
        self.episodes = Episodes.none(env, count, entropy)
        empty = jax.tree.map(np.asarray, (zeros(env.observation_space), env._no_mask()))
        self.obs, self.mask = jax.tree.map(lambda x: np.repeat(x[None], count, axis=0), empty)
        self.episode_return = np.zeros(count, np.float64)

    def begin(self) -> None:
        """Begin the first episodes."""
        self.restart(np.arange(self.count))

    def restore(self, episodes: Episodes, states: Any) -> list[int]:
        """Bring the environments to the states of a checkpoint. Returns those that did not come there.

        The actions of their episodes are repeated. An environment that then returns another observation than the saved
        one, because its episodes do not follow from their seeds, begins a new episode; so does one whose episode was
        longer than what is kept.
        """
        self.episodes = jax.tree.map(np.array, episodes)
        rounding = 0 if states.rounding is None else states.rounding
        self.episode_return = states.episode_return.astype(np.float64) - rounding
        lost = np.flatnonzero(~self._repeat(states.state.obs))
        if lost.size:
            self.restart(lost)
        return lost.tolist()

    def env_states(self) -> EnvStates:
        """The states of the environments, as a compiled program has them."""
        total = self.episode_return.astype(np.float32)
        rounding = None if self.short_episodes else (total - self.episode_return).astype(np.float32)
        time, obs, mask, total, rounding = _on_device((self.episodes.time, self.obs, self.mask, total, rounding))
        return EnvStates(jax.vmap(HostState)(time, obs, mask), total, rounding)

    def close(self) -> None:
        """Close all environments."""
        self.simulators.close()

    def collect(self, act: Act, num_steps: int, final_slots: int, ended: Callable[[np.ndarray], object]) -> Trajectory:
        """Take T steps of all environments, with resets. Returns the trajectory.

        `ended` is called with the flags [E] of the environments whose episodes ended, after each step with one.
        Raises RuntimeError if more episodes are truncated than the time limit of the environment allows.
        """
        columns: dict[str, Any] = {}
        final = jax.tree.map(lambda x: np.zeros((final_slots, *x.shape), x.dtype), (self.obs, self.mask))
        slot = np.zeros(self.count, np.int32)
        for t in range(num_steps):
            seen = {"obs": self.obs, "mask": self.mask, "final_slot": slot, "is_first": self.episodes.time == 0}
            kept = _write(columns, seen, t, num_steps)
            action, output = act(kept["obs"], kept["mask"], t)
            result = self.step(action, final, slot)
            _write(columns, {"action": action, "policy_output": output, **result}, t, num_steps)
            if (done := result["terminated"] | result["truncated"]).any():
                ended(done)
        return Trajectory(
            **_on_device(columns),
            info={},
            last_obs=_on_device(self.obs),
            last_mask=_on_device(self.mask),
            final_obs=_on_device(final[0]),
            final_mask=_on_device(final[1]),
            num_first_states=num_steps,
        )

    def step(
        self, action: Any, final: Any, slot: np.ndarray, running: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        """Take one step of the `running` environments (default: all), and begin new episodes where one ended.

        Returns the results [E], zero for an environment that does not run. Final observations and masks of truncated
        episodes go into `final`, in the row that `slot` [E] counts.
        """
        results = {
            "reward": np.zeros(self.count, np.float32),
            "terminated": np.zeros(self.count, bool),
            "truncated": np.zeros(self.count, bool),
            "episode_return": np.zeros(self.count, np.float32),
            "episode_length": np.zeros(self.count, np.int32),
        }
        which = np.arange(self.count) if running is None else np.flatnonzero(running)
        actions = _rows(action, which)
        self._keep_actions(which, actions)
        obs, mask, reward, terminated, truncated = self.simulators.step(which, actions)
        self.episodes.time[which] += 1
        if self.env.max_steps is not None:
            truncated = truncated | (self.episodes.time[which] >= self.env.max_steps)
        self.episode_return[which] += reward
        values = (reward, terminated, truncated, self.episode_return[which], self.episodes.time[which])
        for column, value in zip(results.values(), values, strict=True):
            column[which] = value
        self._observe(which, obs, mask)
        for e in which[truncated & ~terminated].tolist():
            self._keep_final(e, final, slot)
        if (over := which[terminated | truncated]).size:
            self.restart(over)
        return results

    def restart(self, which: np.ndarray) -> None:
        """Begin the next episodes of the environments with the indices `which` [N]."""
        self.episodes.begun[which] += 1
        self.episodes.time[which] = 0
        self.episode_return[which] = 0
        self._observe(which, *self.simulators.reset(which, self._seeds(which)))

    def _seeds(self, which: np.ndarray) -> list[int]:
        return [self.episodes.seed(e) for e in which.tolist()]

    def _keep_actions(self, which: np.ndarray, actions: Any) -> None:
        time = self.episodes.time[which]
        for kept, value in zip(jax.tree.leaves(self.episodes.actions), jax.tree.leaves(actions), strict=True):
            fits = time < kept.shape[1]
            kept[which[fits], time[fits]] = value[fits]

    def _keep_final(self, e: int, final: Any, slot: np.ndarray) -> None:
        for rows, value in zip(jax.tree.leaves(final), jax.tree.leaves((self.obs, self.mask)), strict=True):
            if slot[e] >= len(rows):
                raise RuntimeError(
                    f"an episode was truncated after {self.episodes.time[e]} steps, more often than its time limit "
                    f"max_steps={self.env.max_steps} allows: say so with env.truncates_early=true, or give "
                    f"env.max_steps a number so small that no episode is truncated earlier."
                )
            rows[slot[e], e] = value[e]
        slot[e] += 1

    def _observe(self, which: np.ndarray, obs: Any, mask: Any) -> None:
        leaves = jax.tree.leaves((self.obs, self.mask))
        for rows, value in zip(leaves, jax.tree.leaves((obs, mask)), strict=True):
            rows[which] = value

    def _repeat(self, saved_obs: Any) -> np.ndarray:
        """Repeat the actions of the present episodes. Returns which [E] environments come to the saved observations."""
        time, actions = self.episodes.time, self.episodes.actions
        is_kept = (time <= jax.tree.leaves(actions)[0].shape[1]) & self.env.repeats_episodes
        going = np.flatnonzero(is_kept)
        if going.size:
            self._observe(going, *self.simulators.reset(going, self._seeds(going)))
        for t in range(int(time[going].max(initial=0))):
            going = going[time[going] > t]
            obs, mask, _, terminated, truncated = self.simulators.step(
                going, jax.tree.map(lambda x, t=t, of=going: x[of, t], actions)
            )
            self._observe(going, obs, mask)
            is_kept[going] &= ~(terminated | truncated)  # its episode was not over
            going = going[is_kept[going]]
        pairs = zip(jax.tree.leaves(self.obs), jax.tree.leaves(saved_obs), strict=True)
        same = [[np.array_equal(x, y, equal_nan=_is_real(x)) for x, y in zip(*pair, strict=True)] for pair in pairs]
        return is_kept & np.all(same, axis=0)


def _rows(tree: Any, which: np.ndarray) -> Any:
    return jax.tree.map(lambda x: x[which], tree)


def _write(columns: dict[str, Any], row: dict[str, Any], t: int, num_steps: int) -> dict[str, Any]:
    """Write row t of columns with leaves [T, ...], which the first row makes. Returns the row as it is there."""
    if not row.keys() <= columns.keys():
        columns |= jax.tree.map(lambda x: np.empty((num_steps, *np.shape(x)), np.asarray(x).dtype), row)
    written = {name: jax.tree.map(lambda column: column[t], columns[name]) for name in row}
    jax.tree.map(np.copyto, written, row)
    return written


def _on_device(tree: Any) -> Any:
    return jax.tree.map(jnp.array, tree)  # a copy: arrays of a CPU may share the memory of NumPy's


def _is_real(x: Any) -> bool:
    return np.issubdtype(np.asarray(x).dtype, np.floating)
