"""`check_agent`: does an agent keep the contract? Run it on your own; it names the hook and says what to write.

Every registered agent is held to this by the test suite. It says nothing of whether an agent learns.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.agent import Agent, AgentState, Metrics
from shoal.core.checking import (
    broken,
    check_same_structure,
    check_scalar,
    check_value,
    difference,
    numbers,
    same_shapes,
    tracing,
)
from shoal.core.env import Env
from shoal.core.errors import CheckError
from shoal.core.keys import Key, is_key, make_key
from shoal.core.spaces import Discrete, explain, misfit
from shoal.core.struct import hyper_fields, static_fields, to_arrays
from shoal.rollouts.episodes import EpisodeStats

TOGETHER = 4  # updates that members do side by side: rounding differs from that of one alone, and grows
LATER = 3  # the clock at which a second member begins
GAMES, STEPS = 16, 4  # in which the policy acts


def check_agent(agent: Any, env: Env, key: Key | None = None, updates: int = 20) -> None:
    """Check an agent against the contract of `Agent`, by tracing its hooks and training a few members on `env`.

    Checked: the value is a pytree with numbers for leaves; an agent that was not bound says so; `bind` fills what is
    declared; hooks accept traced numbers, and states, metrics and actions have the right structure, shape and dtype,
    also under 64 bits; `age` counts updates; no key is used twice, and another key gives another member; other numbers
    in `hyper` fields do not recompile, and matter; a member trains the same alone, beside others and at another clock;
    `policy_state` is all that `act` and `value` read; actions lie in their space and are allowed by the mask.

    `updates` are those of each member: for an agent that warms up, take as many as it needs to begin to learn. Whether
    it learns is another question. Its best actions and values in `Probe-*` environments are known by hand.

    Raises CheckError (an AssertionError) at the first rule that is broken. An error that a hook raises by itself passes
    through, and so does that of a `bind` which refuses `env`.

        check_agent(shoal.PPO(), shoal.make("CartPole-v1"))
    """
    if updates < TOGETHER:
        raise ValueError(f"updates={updates} are too few to tell members apart: take at least {TOGETHER}.")
    key = make_key(0) if key is None else key
    _check_value(agent)
    _check_unbound(agent, env)
    bound = _bound(agent, env)
    _check_sizes(bound)
    hooks = _Hooks(jax.jit(lambda a, e, k: a.init(k, e)), jax.jit(lambda a, s, e, t: a.update(s, e, t)))
    init, update = _check_hooks(bound, to_arrays(env), key, hooks)
    try:
        with jax.enable_x64(True):
            _check_hooks(_bound(agent, env), to_arrays(env), key, hooks)
    except CheckError as error:
        raise CheckError(f"{error} This is so where JAX has 64 bits (JAX_ENABLE_X64=1).") from error
    _check_numbers_are_traced(bound)
    programs = _Programs(init.lower().compile(), update.lower().compile())
    _check_members(bound, to_arrays(env), key, updates, hooks, programs)


# The value itself.


def _check_value(agent: Any) -> None:
    if not isinstance(agent, Agent):
        raise CheckError(f"{agent!r} is not an agent: derive its class from shoal's Agent.")
    check_value(agent)


def _check_unbound(agent: Agent, env: Env) -> None:
    if not _declared(agent) or _is_bound(agent):
        return
    uses = {
        "init": (make_key(0), env),
        "update": (None, env, jnp.int32(0)),
        "act": (None, None, None, make_key(0), True),
        "value": (None, None),
    }
    for hook in (hook for hook in uses if hasattr(agent, hook)):
        try:
            getattr(agent, hook)(*uses[hook])
        except ValueError as error:
            if "not bound" in str(error):
                continue
        except Exception as error:
            raise _silent_without_bind(agent, hook) from error
        raise _silent_without_bind(agent, hook)


def _silent_without_bind(agent: Agent, hook: str) -> CheckError:
    return broken(
        agent,
        hook,
        "does not say that the agent was not bound: define it in the class body, where Agent adds that check",
    )


def _declared(agent: Agent) -> list[str]:
    return [name for name, field in static_fields(agent).items() if "bind" in field.metadata]


def _is_bound(agent: Agent) -> bool:
    return all(getattr(agent, name) is not None for name in _declared(agent))


def _bound(agent: Agent, env: Env) -> Agent:
    bound = agent.bind(env)
    if type(bound) is not type(agent):
        raise broken(agent, "bind", f"gives a {type(bound).__name__}: return self.replace(...)")
    empty = [name for name in _declared(bound) if getattr(bound, name) is None]
    if empty:
        raise broken(agent, "bind", f"leaves {empty[0]} empty, which is declared as filled_by_bind(): fill it in")
    return to_arrays(bound)


def _check_sizes(agent: Agent) -> None:
    for name in ("steps_per_update", "members_per_call"):
        given = getattr(agent, name)
        if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 1:
            raise broken(agent, name, f"is {given!r}: return a whole number, at least 1, made from static fields")


# What the hooks return, found by tracing.


class _Hooks(NamedTuple):
    """What is traced once, for a member alone and for those beside others."""

    init: Callable[[Agent, Env, Key], AgentState]
    update: Callable[..., tuple[AgentState, Metrics]]


def _check_hooks(agent: Agent, env: Env, key: Key, hooks: _Hooks) -> tuple[jax.stages.Traced, jax.stages.Traced]:
    """Every hook, traced once, while it is also watched for keys that are used twice: (traced init, traced update)."""
    init = _traced(agent, "init", hooks.init, env, key)
    state = init.out_info
    _check_state(agent, state)
    update = _traced(agent, "update", hooks.update, state, env, jax.ShapeDtypeStruct((), jnp.int32))
    _check_update(agent, state, update.out_info)
    policy = _trace(agent, "policy_state", lambda a, s: a.policy_state(s), state)
    _check_small(agent, "policy_state", policy)
    reseeded = _trace(agent, "reseed", lambda a, s, k: a.reseed(s, k), state, key)
    check_same_structure(agent, "reseed", state, reseeded)
    _check_act(agent, env, policy, key)
    return init, update


def _check_state(agent: Agent, state: Any) -> None:
    for name in ("age", "key"):
        if not hasattr(state, name):
            raise broken(
                agent, "init", f"gives a {type(state).__name__} without {name}: return a @struct class with age and key"
            )
    check_scalar(agent, "init", "age", state.age, jnp.int32, "start it as jnp.int32(0)")
    if not is_key(state.key) or state.key.shape != ():
        raise broken(agent, "init", "gives state.key that is no key: keep one that jax.random.split made of `key`")


def _check_update(agent: Agent, state: AgentState, result: Any) -> None:
    if not (isinstance(result, tuple) and len(result) == 2):
        raise broken(agent, "update", "must give two things: (state, metrics)")
    after, metrics = result
    check_same_structure(agent, "update", state, after)
    if not isinstance(metrics, Metrics) or not isinstance(metrics.episodes, EpisodeStats):
        raise broken(agent, "update", "must give Metrics(episodes, losses) with EpisodeStats for episodes, as second")
    if not isinstance(metrics.losses, dict):
        raise broken(agent, "update", f"gives losses as a {type(metrics.losses).__name__}, not as a dict of averages")
    for name, loss in {**metrics.losses, "weight": metrics.weight}.items():
        if jnp.shape(loss) != ():
            raise broken(agent, "update", f"gives {name} with shape {jnp.shape(loss)}: average it over the update")
    _check_small(agent, "update", (metrics.episodes, metrics.losses))


def _check_small(agent: Agent, hook: str, tree: Any) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if not is_key(leaf) and leaf.dtype.itemsize > 4:
            where = jax.tree_util.keystr(path)
            raise broken(
                agent, hook, f"gives {leaf.dtype} at {where} where JAX has 64 bits: say its dtype, such as jnp.float32"
            )


def _check_act(agent: Agent, env: Env, policy: Any, key: Key) -> None:
    start = jax.eval_shape(env.init, key)
    obs, mask = jax.eval_shape(env.observe, start), jax.eval_shape(env.action_mask, start)
    carry = jax.eval_shape(agent.initial_carry)
    for greedy in (True, False):
        act = functools.partial(_act, greedy=greedy)
        result = _trace(agent, "act", act, policy, obs, carry, key, mask)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise broken(agent, "act", "must give two things: (action, carry)")
        if jax.tree.structure(result[1]) != jax.tree.structure(carry) or not same_shapes(result[1], carry):
            raise broken(agent, "act", f"gives carry {result[1]}, but initial_carry {carry}: keep shapes and dtypes")
        if reason := misfit(env.action_space, result[0], "the action"):
            raise broken(agent, "act", f"disagrees with action_space when greedy={greedy}: {reason}")


def _act(agent: Agent, policy: Any, obs: Any, carry: Any, key: Key, mask: Any, greedy: bool) -> Any:
    return agent.act(policy, obs, carry, key, greedy, mask)


def _trace(agent: Agent, hook: str, call: Callable[..., Any], *given: Any) -> Any:
    """What a hook would return. The agent's numbers and everything that is given are traced."""
    return _traced(agent, hook, call, *given).out_info


def _traced(agent: Agent, hook: str, call: Callable[..., Any], *given: Any) -> jax.stages.Traced:
    with jax.debug_key_reuse(True), tracing("check_agent", agent, hook):
        return jax.jit(call).trace(agent, *given)


# What the hooks compute.


def _check_numbers_are_traced(agent: Agent) -> None:
    for name, low in _least(agent).items():
        other = to_arrays(agent.replace(**{name: low}))
        if jax.tree.structure(other) != jax.tree.structure(agent) or not same_shapes(other, agent):
            raise broken(agent, name, "recompiles when it changes: static fields must not be made from it")


def _least(agent: Agent) -> dict[str, Any]:
    """Each `hyper` field with the least number that a search would try, or with its default."""
    searches = {name: field.metadata["search"] for name, field in hyper_fields(agent).items()}
    return {name: hyper_fields(agent)[name].default if s is None else s.low for name, s in searches.items()}


class _Programs(NamedTuple):
    """What is compiled: each once, for all members."""

    init: Callable[[Agent, Env, Key], AgentState]
    update: Callable[..., tuple[AgentState, Metrics]]

    def train(self, agent: Agent, env: Env, state: AgentState, updates: int, clock: int = 0) -> AgentState:
        """One member after so many updates."""
        for i in range(updates):
            state, _ = self.update(agent, state, env, jnp.int32(clock + i))
        return state


def _check_members(agent: Agent, env: Env, key: Key, updates: int, hooks: _Hooks, programs: _Programs) -> None:
    k_one, k_two, k_copy, k_play = jax.random.split(key, 4)
    start = programs.init(agent, env, k_one)
    if np.array_equal(numbers(start.key), numbers(programs.init(agent, env, k_two).key)):
        raise broken(agent, "init", "gives the same state.key for two keys: derive it from `key`")
    some = programs.train(agent, env, start, TOGETHER)
    last = programs.train(agent, env, some, updates - TOGETHER, TOGETHER)
    _check_age(agent, {0: start, TOGETHER: some, updates: last})
    _check_policy(agent, env, last, k_play)
    _check_copy(agent, env, start, last, k_copy, programs)
    late = programs.train(agent, env, start, updates, LATER)
    where = difference(agent.policy_state(last), agent.policy_state(late), exact=True)
    if where is not None:
        raise broken(
            agent,
            "update",
            f"leaves another policy (at {where}) where the clock begins at {LATER}: schedules must follow state.age, "
            "and samples be those of this member alone",
        )
    other = to_arrays(agent.replace(**_least(agent)))
    other_some = programs.train(other, env, programs.init(other, env, k_one), TOGETHER)
    other_last = programs.train(other, env, other_some, updates - TOGETHER, TOGETHER)
    _check_numbers_matter(agent, other, last, other_last, updates)
    _check_together(agent, other, env, (k_one, k_two), (some, other_some), hooks)


def _check_age(agent: Agent, states: dict[int, AgentState]) -> None:
    for age, state in states.items():
        if int(state.age) != age:
            raise broken(
                agent, "update", f"leaves state.age at {state.age} after {age} updates: add 1 in each, start at 0"
            )


def _check_copy(agent: Agent, env: Env, start: AgentState, last: AgentState, key: Key, programs: _Programs) -> None:
    updates, copy = int(last.age), agent.reseed(start, key)
    if (where := difference(_unkeyed(copy), _unkeyed(start), exact=True)) is not None:
        raise broken(agent, "reseed", f"changes leaf {where} of the state: a copy differs by its keys alone")
    same = programs.train(agent, env, agent.reseed(start, start.key), updates)
    if difference(_unkeyed(same), _unkeyed(last), exact=True) is not None:
        raise broken(agent, "reseed", "given a member's own key does not leave it as it was: put `key` into state.key")
    other = programs.train(agent, env, copy, updates)
    moves = not np.array_equal(numbers(start.key), numbers(last.key))
    matters = difference(_unkeyed(other), _unkeyed(last), exact=True) is not None
    if matters and not moves:
        raise broken(agent, "update", "draws from state.key and leaves it there: split it, and keep a part for later")
    if moves and not matters:
        raise broken(
            agent, "update", f"does the same after reseed: in {updates} updates no random number came from state.key"
        )


def _unkeyed(tree: Any) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(tree) if not is_key(leaf)]


def _check_numbers_matter(agent: Agent, other: Agent, last: AgentState, other_last: AgentState, updates: int) -> None:
    differ = difference(agent, other, exact=True) is not None
    if not differ or updates * agent.steps_per_update <= float(np.asarray(agent.learns_from)):
        return
    if difference(_unkeyed(last), _unkeyed(other_last), exact=True) is None:
        raise broken(
            agent, "update", f"gives the same member with other hyperparameters ({', '.join(_least(agent))}): use them"
        )


def _check_together(
    agent: Agent,
    other: Agent,
    env: Env,
    keys: tuple[Key, Key],
    alone: tuple[AgentState, AgentState],
    hooks: _Hooks,
) -> None:
    """Four members in one call: each of two settings with each of two keys. The first two are known."""

    def life(agent: Agent, key: Key) -> AgentState:
        start = hooks.init(agent, env, key)
        return jax.lax.fori_loop(np.int32(0), np.int32(TOGETHER), lambda i, s: hooks.update(agent, s, env, i)[0], start)

    agents = jax.tree.map(lambda *x: np.stack(x), agent, other, agent, other)
    members = jnp.stack([keys[0], keys[0], keys[1], keys[1]])
    program = _traced(agents, "update", jax.vmap(life), members).lower().compile()  # hooks are not traced again
    together = jax.tree.map(numbers, program(agents, members))  # on the host: taking rows there compiles nothing
    for i, member in enumerate(alone):
        where = difference(jax.tree.map(lambda x, i=i: x[i], together), member, exact=False)
        if where is not None:
            raise broken(
                agent,
                "update",
                f"gives another member under vmap than alone (at {where}): write it for one member, without shapes or "
                "orders of summation that depend on how many there are",
            )


def _check_policy(agent: Agent, env: Env, state: AgentState, key: Key) -> None:
    space = env.action_space

    def game(agent: Agent, env: Env, state: AgentState, key: Key) -> dict[str, Any]:
        k_init, k_steps = jax.random.split(key)
        policy = agent.policy_state(state)  # in here, so that what it only copies is compiled once, not once for each
        fresh = env.init(k_init), agent.initial_carry()

        def step(loop: tuple[Any, Any], key: Key) -> tuple[tuple[Any, Any], dict[str, Any]]:
            world, carry = loop
            k_act, k_other, k_env = jax.random.split(key, 3)
            obs, mask = env.observe(world), env.action_mask(world)
            (action, after), (same, _) = (agent.act(s, obs, carry, k_act, False, mask) for s in (state, policy))
            best = agent.act(state, obs, carry, k_act, True, mask)[0]
            same_best = agent.act(policy, obs, carry, k_other, True, mask)[0]
            world, _, terminated, truncated, _ = env.advance(world, action, env.noise(k_env))
            over = terminated | truncated
            loop = jax.tree.map(lambda new, old: jnp.where(over, new, old), fresh, (world, after))
            seen = {"sampled": (action, same), "greedy": (best, same_best), "mask": mask}
            seen["inside"] = space.contains(action) & space.contains(best)
            if value := getattr(agent, "value", None):
                seen["value"] = tuple(value(s, obs) for s in (state, policy))
            return loop, seen

        return jax.lax.scan(step, fresh, jax.random.split(k_steps, STEPS))[1]

    play = jax.jit(jax.vmap(game, (None, None, None, 0)))
    seen = play(agent, env, state, jax.random.split(key, GAMES))
    seen = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), seen)
    _check_actions(agent, env, seen)
    if difference(*seen["greedy"], exact=False) is not None:
        raise broken(
            agent,
            "act",
            "acts otherwise with policy_state(state) than with the state when greedy: keep what it reads in "
            "policy_state, and draw nothing from its key when greedy",
        )
    for what, hook in (("sampled", "act"), ("value", "value")):
        if what in seen and difference(*seen[what], exact=False) is not None:
            raise broken(
                agent, hook, "gives otherwise with policy_state(state) than with the state: keep what it reads there"
            )


def _check_actions(agent: Agent, env: Env, seen: dict[str, Any]) -> None:
    space = env.action_space
    for action in (seen["sampled"][0], seen["greedy"][0]):
        if not seen["inside"].all():
            of_step = jax.tree.map(lambda x: x[np.argmin(seen["inside"])], action)
            if reason := explain(space, of_step, "the action"):
                raise broken(agent, "act", f"leaves action_space: {reason} {space}")
        if seen["mask"] is not None and isinstance(space, Discrete):
            allowed = np.take_along_axis(seen["mask"], action[:, None], axis=1)[:, 0]
            if not allowed.all():
                step = np.argmin(allowed)
                raise broken(agent, "act", f"takes action {action[step]}, which the mask {seen['mask'][step]} forbids")
