"""One bound agent for all settings of a run: its sizes hold for each of them, and what they must share is checked."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.core.agent import Agent, both_ends
from shoal.core.env import Env
from shoal.core.errors import Unsuited
from shoal.core.host_env import HostEnv
from shoal.core.registry import AGENTS
from shoal.core.schedules import Scheduled, lifted
from shoal.core.spaces import Space, without_real_bounds
from shoal.core.struct import fill_caps, hyper_fields, info_of, schedules_in, static_fields
from shoal.core.wrappers.base import Wrapper
from shoal.specs.settings import (
    AgentEnv,
    apply,
    get,
    is_of_env,
    is_static,
    join,
    setting_in_words,
    static_sweep_error,
    user_fields,
)
from shoal.specs.spec import RunSpec, built
from shoal.training.host_envs import check_learns_on_host


def bind(agent: Agent, env: Env, spec: RunSpec) -> Agent:
    """Return the agent bound to the environment. Raises Unsuited, with agents that suit it, if that cannot be."""
    try:
        check_learns_on_host(agent, env)
        bound = agent.bind(env)
    except Unsuited as error:
        suited = [name for name in AGENTS if _is_suited(name, env)]
        advice = (
            f"Agents that can play {spec.env_name}: {', '.join(suited)}."
            if suited
            else f"No agent can play {spec.env_name}."
        )
        raise Unsuited(f"{spec.agent} cannot play {spec.env_name}: {error} {advice}") from None
    if isinstance(env, HostEnv):
        env.check_count(bound.rollout.num_envs)
    return bound


def of_all_sizes(pairs: list[AgentEnv], varying: Sequence[str]) -> AgentEnv:
    """Return the first setting with the varying hyperparameters of all settings [S, ...], and with all time limits.

    The sizes of its agent, when bound, hold for every setting, and for all numbers of its schedules. Raises ValueError
    for a number above its cap.
    """
    varying = list(dict.fromkeys([*varying, *(name for pair in pairs for name in schedules_in(pair.agent))]))
    pairs = [AgentEnv(agent, pair.env) for pair in pairs for agent in both_ends(pair.agent)]
    agents, envs = fill_caps([pair.agent for pair in pairs]), [pair.env for pair in pairs]
    fields = user_fields(agents[0])
    # Sizes do not depend on what is in a `part`, such as the weights of a loss.
    paths = [p for p in varying if not is_of_env(p) and not info_of(fields[p.partition(".")[0]]).part]
    columns = {path: np.asarray([get(AgentEnv(agent, envs[0]), path) for agent in agents]) for path in paths}
    return AgentEnv(apply(AgentEnv(agents[0], envs[0]), columns).agent, _with_all_limits(envs))


def with_sizes_of(bound: Agent, pairs: Sequence[AgentEnv], steps: int) -> list[AgentEnv]:
    """Return settings with the static fields of the bound agent, and the horizons of a run of so many steps."""
    statics = {name: getattr(bound, name) for name in static_fields(bound)}
    return [AgentEnv(agent.replace(**statics, **horizons(agent, steps)), env) for agent, env in pairs]


def horizons(agent: Agent, steps: int) -> dict[str, Any]:
    """Return the `spans_run` fields of an agent by name; `steps`, the length of the run, for those that are 0.

    For an agent without such a field: its schedules, where those without a horizon have `steps` as theirs.
    """
    spanning = [name for name, field in hyper_fields(agent).items() if info_of(field).spans_run]
    if spanning:
        return {name: float(getattr(agent, name) or steps) for name in spanning}
    schedules = schedules_in(agent).items()
    return {name: dataclasses.replace(s, horizon=float(s.horizon or steps)) for name, s in schedules}


def with_lifted(pairs: Sequence[AgentEnv], varying: Sequence[str]) -> list[AgentEnv]:
    """Return settings in which a hyperparameter that varies is a schedule in all of them, or a number in all."""
    columns = {path: lifted([get(pair, path) for pair in pairs]) for path in varying}
    changed = {path: column for path, column in columns.items() if isinstance(column[0], Scheduled)}
    return [apply(pair, {path: column[s] for path, column in changed.items()}) for s, pair in enumerate(pairs)]


def check_traced(common: AgentEnv, spec: RunSpec) -> None:
    """Raise ValueError for a sweep without values, and for one over a static field."""
    for path, values in {**join(spec.sweep, spec.env_sweep), **spec.points}.items():
        if not len(values):
            raise ValueError(f"{path} has no values to sweep over.")
        # A `part` is static or not as its content is: the values may be structs where the template has a name.
        if is_static(common, path) and any(is_static(apply(common, built({path: v})), path) for v in values):
            raise static_sweep_error(path, values)


def check_spaces(envs: list[Env], settings: list[dict[str, Any]]) -> None:
    """Raise ValueError if the environments of the settings differ in their spaces.

    All members share one bound agent. It depends on the bounds of actions, but not on those of float observations.
    """

    def spaces(env: Env) -> dict[str, Space]:
        return {"action": env.action_space, "observation": without_real_bounds(env.observation_space)}

    first = spaces(envs[0])
    for env, setting in zip(envs[1:], settings[1:], strict=True):
        for kind, space in spaces(env).items():
            if space != first[kind]:
                one, other = ({k: v for k, v in s.items() if is_of_env(k)} for s in (settings[0], setting))
                raise ValueError(
                    f"{setting_in_words(one)} and {setting_in_words(other)} have different {kind} spaces, "
                    f"{first[kind]} and {space}, but all members of a sweep need the same one: start a run for each."
                )


def _is_suited(name: str, env: Env) -> bool:
    try:
        agent = AGENTS[name].build()
        check_learns_on_host(agent, env)
        agent.bind(env)
    except Unsuited:
        return False
    except ValueError:
        pass  # its default sizes do not fit, but others would
    return True


def _with_all_limits(envs: list[Env]) -> Env:
    # Sizes that depend on the length of episodes must hold for the shortest time limit and for the longest.
    longest = max(envs, key=lambda env: env.longest_episode or 0)
    limits = np.asarray([env.max_steps for env in envs if env.max_steps is not None])
    return _with_limits(longest, limits) if len(np.unique(limits)) > 1 else longest


def _with_limits(env: Env, limits: np.ndarray) -> Env:
    if isinstance(env, Wrapper) and "max_steps" not in user_fields(env):
        return env.replace(env=_with_limits(env.env, limits))
    return env.replace(max_steps=limits)
