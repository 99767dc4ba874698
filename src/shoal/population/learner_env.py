"""LearnerEnv: an environment whose step is the training of another agent for some updates.

The outer agent chooses hyperparameters of the inner one before each step, so it can learn a schedule, for example of
the learning rate. Everything is one compiled program.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.agent import Agent
from shoal.core.env import Env, Key, State, Transition
from shoal.core.keys import make_key
from shoal.core.ranges import Range
from shoal.core.spaces import Box
from shoal.core.struct import Struct, hyper_fields, info_of, static, static_fields, struct, to_arrays
from shoal.specs.points import check_read
from shoal.specs.settings import AgentEnv, Hyperparameter, apply, get, hyperparameters
from shoal.training.binding import horizons, of_all_sizes
from shoal.training.program import all_finite, where_alive

LARGEST_LOG = 89.0  # bound of observations: above log(1 + the largest float32)


@struct
class LearnerState(State):
    """The inner agent's state, and the results of the last step of training."""

    learner: Any  # the state of the inner agent, without its random key: each step gets one as noise
    alive: Bool[Array, ""]  # False: an update was not finite; it was undone, and the learner is not trained any more
    choice: Float[Array, "H"]  # the last action, clipped to [-1, 1]; 0 at the start
    mean_return: Float[Array, ""]  # of the inner episodes that ended in the last step in which any ended; 0 before
    improvement: Float[Array, ""]  # the change of `mean_return` in the last step
    ended: Bool[Array, ""]  # whether an inner episode ended in the last step
    losses: Float[Array, "L"]  # means over the updates of the last step, in the order of their names; 0 if none


@struct
class Results(Struct):
    """The results of updates, [updates]: episodes that ended, and losses times the number of gradient steps."""

    episodes: Int[Array, "*updates"]
    return_sum: Float[Array, "*updates"]
    weight: Float[Array, "*updates"]
    losses: Float[Array, "*updates L"]


@struct
class LearnerEnv(Env):
    """Train an agent by choosing its hyperparameters while it learns: a step is `updates` updates of that agent.

    `agent` is the inner agent, and `env` the environment that it is trained on. `hyperparameters` says what the action
    sets: names of fields of the agent, whose declared search ranges are then used, or tuples (name, low, high) and
    (name, low, high, "log"). A name that begins with `env.` is a constant of the inner environment.

        env = LearnerEnv(PPO(num_envs=4, num_steps=32), make("CartPole-v1"), updates=5, steps=20,
                         hyperparameters=("learning_rate", ("clip", 0.05, 0.3)))

    Action: Box(H), float32, a number in [-1, 1] for each hyperparameter: -1 is the lower end of its range, 1 the upper
    one, and numbers between them are on a logarithmic scale if the range has one.

    Observation: Box(4 + H + L), float32. slog(x) is sign(x) log(1 + |x|), and 0 where x is not a number.

    | part | quantity                                                                                        |
    |------|-------------------------------------------------------------------------------------------------|
    | 1    | the fraction of the training run that is over, from 0 to 1                                      |
    | 1    | slog of the mean return of the inner episodes that ended last (in training); 0 before any ended |
    | 1    | slog of its change in the last step                                                             |
    | 1    | whether an inner episode ended in the last step, 0 or 1                                         |
    | H    | the last action; 0 at the start                                                                 |
    | L    | slog of the mean of each loss of the inner agent in the last step, in the order of their names  |

    Reward: with `reward="return"` the mean return of the inner episodes that ended in this step; if none ended, the
    last one again. With `"improvement"` the change of this number, so that the rewards of an episode add up to the
    inner agent's last mean return.
    Start: a new inner agent with random weights.
    End: terminated after `steps` steps, when the inner training run is over. Schedules of the inner agent span it.

    If an inner update is not finite, it is undone, and the inner agent is not trained any more in this episode.
    The state holds the whole inner agent state, with its environments and replay buffer: choose small ones.
    Sizes, such as that of the replay buffer, are those of the upper ends of the ranges: choose small ones here, too.
    Raises TypeError for a name that does not exist, and ValueError for a hyperparameter that cannot vary in one program
    or that only a new agent reads, and for a range that the agent does not allow. An agent that is not bound is bound
    to `env`.
    """

    agent: Any
    env: Env
    updates: int = static(1)
    steps: int = static(50)
    hyperparameters: tuple = static(("learning_rate",))
    reward: str = static("return", choices=("return", "improvement"))
    losses: Any = static(None)  # names of the inner agent's losses, found when it is bound

    def __post_init__(self) -> None:
        if not isinstance(self.agent, Agent):
            raise TypeError(f"LearnerEnv trains an agent such as shoal.PPO(), not {self.agent!r:.60}.")
        if not isinstance(self.env, Env):
            raise TypeError(f"LearnerEnv needs an environment such as shoal.make('CartPole-v1'), not {self.env!r:.60}.")
        if self.reward not in ("return", "improvement"):
            raise ValueError(f"reward={self.reward!r} is unknown. Choose 'return' or 'improvement'.")
        if min(self.updates, self.steps) < 1:
            raise ValueError(f"updates={self.updates} and steps={self.steps} must both be at least 1.")
        if not self.hyperparameters:
            raise ValueError("LearnerEnv needs a hyperparameter that actions set, such as ('learning_rate',).")
        ranges = self._ranges()  # raises for a wrong one
        if not _is_bound(self.agent):
            bound = _bound(AgentEnv(self.agent, self.env), ranges)
            length = self.steps * self.updates * bound.steps_per_update
            object.__setattr__(self, "agent", bound.replace(**horizons(bound, length)))
            object.__setattr__(self, "losses", _loss_names(self.agent, self.env))
        _check_fits(self.agent, self.env)
        _check_caps(self.agent, ranges)
        check_read(AgentEnv(self.agent, self.env), ranges)

    @property
    def reset_every(self) -> int:  # type: ignore[override]  # as long as the inner training run
        """The number of steps of an episode."""
        return self.steps

    @property
    def longest_episode(self) -> int:
        """The number of steps of an episode."""
        return self.steps

    @property
    def observation_space(self) -> Box:
        """Progress, returns, the last action and losses, as the class describes them."""
        choices, losses = len(self.hyperparameters), len(self.losses)
        log = LARGEST_LOG
        low = (0.0, -log, -log, 0.0, *(-1.0,) * choices, *(-log,) * losses)
        return Box(low, (1.0, log, log, 1.0, *(1.0,) * choices, *(log,) * losses), (4 + choices + losses,))

    @property
    def action_space(self) -> Box:
        """A number for each hyperparameter."""
        return Box(-1.0, 1.0, (len(self.hyperparameters),))

    def init(self, key: Key) -> LearnerState:
        """A new inner agent."""
        zero = jnp.float32(0)
        return LearnerState(
            time=jnp.int32(0),
            learner=without_keys(self.agent.init(key, self.env)),
            alive=jnp.asarray(True),
            choice=jnp.zeros(len(self.hyperparameters), jnp.float32),
            mean_return=zero,
            improvement=zero,
            ended=jnp.asarray(False),
            losses=jnp.zeros(len(self.losses), jnp.float32),
        )

    def noise(self, key: Key) -> Key:
        """The random key of the inner agent in this step."""
        return key

    def transition(self, state: LearnerState, action: Float[Array, "H"], noise: Key) -> Transition[LearnerState]:
        """Train the inner agent for `updates` updates with the hyperparameters that the action says."""
        choice = jnp.clip(action.astype(jnp.float32), -1.0, 1.0)
        trained, results = self._train(state, *apply(AgentEnv(self.agent, self.env), self.values(choice)), noise)
        episodes, weight = jnp.sum(results.episodes).astype(jnp.float32), jnp.sum(results.weight)
        mean_return = jnp.where(episodes > 0, jnp.sum(results.return_sum) / episodes, state.mean_return)
        improvement = mean_return - state.mean_return
        losses = jnp.sum(results.losses, axis=0) / weight
        state = trained.replace(
            choice=choice,
            mean_return=mean_return,
            improvement=improvement,
            ended=episodes > 0,
            losses=jnp.where(weight > 0, losses, 0.0),
        )
        reward = mean_return if self.reward == "return" else improvement
        return state, reward, state.time >= self.steps, {"mean_return": mean_return, "alive": state.alive}

    def observe(self, state: LearnerState) -> Float[Array, "n"]:
        """Progress, returns, the last action and losses, as the class describes them."""
        progress = state.time.astype(jnp.float32) / self.steps
        seen = jnp.stack(
            [progress, _slog(state.mean_return), _slog(state.improvement), state.ended.astype(jnp.float32)]
        )
        return jnp.concatenate([seen, state.choice, _slog(state.losses)])

    def _train(self, state: LearnerState, agent: Any, env: Env, key: Key) -> tuple[LearnerState, Results]:
        """The state after `updates` updates, and the results of each update; 0 for an update that was undone."""
        first = (state.time - 1) * self.updates  # the clock of the inner run

        def one_update(loop: tuple[Any, Bool[Array, ""]], xs: tuple[Int[Array, ""], Key]) -> Any:
            learner, alive = loop
            i, key = xs
            new, metrics = agent.update(agent.reseed(learner, key), env, first + i)
            alive = alive & all_finite((metrics.losses, agent.policy_state(new)))
            weight = jnp.asarray(metrics.weight, jnp.float32)
            losses = weight * jnp.stack([jnp.asarray(metrics.losses[name], jnp.float32) for name in self.losses])
            results = Results(metrics.episodes.count, metrics.episodes.return_sum, weight, losses)
            zeros = jax.tree.map(jnp.zeros_like, results)
            return (where_alive(alive, without_keys(new), learner), alive), where_alive(alive, results, zeros)

        xs = (jnp.arange(self.updates, dtype=jnp.int32), jax.random.split(key, self.updates))
        (learner, alive), results = jax.lax.scan(one_update, (state.learner, state.alive), xs)
        return state.replace(learner=learner, alive=alive), results

    def values(self, choice: Float[Array | np.ndarray, "H"]) -> dict[str, Float[Array, ""]]:
        """The hyperparameters that an action sets, by name."""
        share = (jnp.asarray(choice) + 1) / 2
        return {name: at.at(share[i], jnp) for i, (name, at) in enumerate(self._ranges().items())}

    def _ranges(self) -> dict[str, Range]:
        """The range of each hyperparameter by name. Raises an error for one that an action cannot set."""
        setting = AgentEnv(self.agent, self.env)
        return dict(_range(setting, given) for given in self.hyperparameters)


def without_keys(state: Any) -> Any:
    """The agent state with None in the place of its random key."""
    return jax.tree.map(lambda x: None if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x, state)


def _range(pair: AgentEnv, given: Any) -> tuple[str, Range]:
    """The name and the range of an entry of `LearnerEnv.hyperparameters`."""
    name, *bounds = (given,) if isinstance(given, str) else given
    value = get(pair, name)
    found = hyperparameters(pair).get(name)
    if found is None or found.static:
        raise ValueError(f"{name} cannot change within one program: choose one of {', '.join(_possible(pair))}.")
    if not _is_real(found):
        raise ValueError(f"{name}={value} is not a real number: choose one of {', '.join(_possible(pair))}.")
    if not bounds:
        if found.search is None:
            raise ValueError(f"{name} declares no search range: write ({name!r}, low, high).")
        return name, found.search
    if len(bounds) not in (2, 3) or bounds[-1] == "choice":
        raise ValueError(f"{given!r} is not a range: write ({name!r}, low, high) or ({name!r}, low, high, 'log').")
    span, valid = Range(float(bounds[0]), float(bounds[1]), *bounds[2:]), info_of(found.field).valid
    if fault := span.fault() or "has one value only: give it to the agent" * (span.low == span.high):
        raise ValueError(f"the range {given!r} {fault}.")
    if valid and not (valid.low <= span.low and span.high <= valid.high):
        raise ValueError(f"{given!r} leaves the valid values of {name}, from {valid.low:g} to {valid.high:g}.")
    return name, span


def _possible(pair: AgentEnv) -> list[str]:
    found = hyperparameters(pair).items()
    return [name for name, hyper in found if not hyper.static and _is_real(hyper) and hyper.search is not None]


def _is_real(found: Hyperparameter) -> bool:
    """Whether a hyperparameter is a float: not a count, an index of a choice, or None."""
    return isinstance(found.field.default, float) and not info_of(found.field).names


def _is_bound(agent: Agent) -> bool:
    return all(getattr(agent, n) is not None for n, field in static_fields(agent).items() if info_of(field).bind)


def _bound(inner: AgentEnv, ranges: dict[str, Range]) -> Agent:
    """The agent bound to its environment, with sizes, such as `max_batch_size`, for the whole range of every action."""
    ends = [apply(inner, {name: at[end] for name, at in ranges.items()}) for end in (0, 1)]
    agent, env = of_all_sizes([inner, *ends], [*ranges])
    return apply(AgentEnv(agent.bind(env), inner.env), {name: get(inner, name) for name in ranges}).agent


def _check_caps(agent: Any, ranges: dict[str, Range]) -> None:
    """Raise ValueError for a range that ends above the cap of an agent that was bound before."""
    for name, at in ranges.items():
        field = hyper_fields(agent).get(name)
        if field and (cap := info_of(field).cap) and at.high > (limit := getattr(agent, cap)):
            raise ValueError(
                f"actions set {name} up to {at.high:g}, and the agent was bound with {cap}={limit}, above which it has "
                f"no effect: give an agent that is not bound, or a range ({name!r}, low, {limit})."
            )


def _check_fits(agent: Any, env: Env) -> None:
    """Raise ValueError for an agent that is bound to an environment of other spaces."""
    for which in ("observation_space", "action_space"):
        bound = getattr(agent, which, None)
        if bound is not None and bound != getattr(env, which):
            raise ValueError(
                f"the inner agent was bound to another environment, whose {which} is {bound}, not "
                f"{getattr(env, which)}: build a new LearnerEnv with an agent that is not bound."
            )


def _loss_names(agent: Any, env: Env) -> tuple[str, ...]:
    def losses(agent: Any, env: Env, key: Key, clock: Int[Array, ""]) -> dict[str, Array]:
        return agent.update(agent.init(key, env), env, clock)[1].losses

    return tuple(sorted(jax.eval_shape(losses, to_arrays(agent), to_arrays(env), make_key(0), jnp.int32(0))))


def _slog(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))
