"""`check_agent`: check that an agent follows the contract of `Agent`. Its errors name the hook and what to write.

The test suite runs it for every registered agent; run it for your own. It does not check whether an agent learns.
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
from shoal.core.kinds import checked_kinds
from shoal.core.process import check_process
from shoal.core.spaces import Discrete, explain, misfit
from shoal.core.struct import hyper_fields, info_of, static_fields, to_arrays
from shoal.rollouts.episodes import EpisodeStats

VMAPPED_UPDATES = (
    4  # updates of members under vmap: few, because rounding errors differ from those of one alone and grow
)
LATE_CLOCK = 3  # the clock at which a member that begins late begins
NUM_ENVS, NUM_STEPS = 16, 4  # of the rollout in which the policy is checked


@checked_kinds()
def check_agent(agent: Any, env: Env, key: Key | None = None, updates: int = 20) -> None:
    """Check an agent against the contract of `Agent`, by tracing its hooks and training a few members on `env`.

    The checks:

    - the agent is a pytree whose leaves are numbers; the hooks of an unbound agent raise ValueError; `bind` fills all
      fields that are declared with `filled_by_bind()`;
    - the hooks accept traced hyperparameters; states, metrics and actions have the right structure, shapes and dtypes,
      also where JAX has 64 bits; `age` counts updates;
    - no key is used twice, and another key gives another member;
    - other values of `hyper` fields do not recompile, and change the result;
    - a member trains the same alone, under vmap with others, and from another clock;
    - `act` and `value` give the same for `policy_state(state)` as for the state; actions are in the action space and
      allowed by the mask.

    `updates` is the number of updates of each member. If gradient steps begin only after a warm-up, give as many as
    are needed to reach them. To check whether an agent learns, train it in the `Probe-*` environments, whose best
    actions and values are known.

    Raises CheckError (an AssertionError) at the first rule that is broken, or for an error in a hook while it is
    traced, which is its cause. Other errors pass through, such as that of a `bind` that rejects `env`. The command
    `shoal check` calls this function.

        check_agent(shoal.PPO(), shoal.make("CartPole-v1"))
    """
    check_process()
    if updates < VMAPPED_UPDATES:
        raise ValueError(f"updates={updates} are too few for the checks: take at least {VMAPPED_UPDATES}.")
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
        raise CheckError(f"{error} This happens where JAX has 64 bits (JAX_ENABLE_X64=1).") from error
    _check_hyperparameters_are_traced(bound)
    programs = _Programs(init.lower().compile(), update.lower().compile())
    _check_members(bound, to_arrays(env), key, updates, hooks, programs)


# The agent as a value, before its hooks run.


def _check_value(agent: Any) -> None:
    if not isinstance(agent, Agent):
        raise CheckError(f"{agent!r} is not an agent: derive its class from shoal's Agent.")
    check_value(agent)


def _check_unbound(agent: Agent, env: Env) -> None:
    if not _declared(agent) or _is_bound(agent):
        return
    arguments = {
        "init": (make_key(0), env),
        "update": (None, env, jnp.int32(0)),
        "act": (None, None, None, make_key(0), True),
        "value": (None, None),
    }
    for hook in (hook for hook in arguments if hasattr(agent, hook)):
        try:
            getattr(agent, hook)(*arguments[hook])
        except ValueError as error:
            if "not bound" in str(error):
                continue
        except Exception as error:
            raise _accepts_unbound(agent, hook) from error
        raise _accepts_unbound(agent, hook)


def _accepts_unbound(agent: Agent, hook: str) -> CheckError:
    return broken(
        agent,
        hook,
        "does not say that the agent was not bound: define it in the class body, where Agent adds that check",
    )


def _declared(agent: Agent) -> list[str]:
    return [name for name, field in static_fields(agent).items() if info_of(field).bind]


def _is_bound(agent: Agent) -> bool:
    return all(getattr(agent, name) is not None for name in _declared(agent))


def _bound(agent: Agent, env: Env) -> Agent:
    bound = agent.bind(env)
    if type(bound) is not type(agent):
        raise broken(agent, "bind", f"returns a {type(bound).__name__}: return self.replace(...)")
    empty = [name for name in _declared(bound) if getattr(bound, name) is None]
    if empty:
        raise broken(agent, "bind", f"leaves {empty[0]} empty, which is declared as filled_by_bind(): fill it in")
    return to_arrays(bound)


def _check_sizes(agent: Agent) -> None:
    for name in ("steps_per_update", "members_per_call"):
        size = getattr(agent, name)
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise broken(agent, name, f"is {size!r}: return a whole number, at least 1, made from static fields")


# Structure, shapes and dtypes of what the hooks return, found by tracing.


class _Hooks(NamedTuple):
    """The jitted hooks, which are traced once for members that train alone and for members under vmap."""

    init: Callable[[Agent, Env, Key], AgentState]
    update: Callable[..., tuple[AgentState, Metrics]]


def _check_hooks(agent: Agent, env: Env, key: Key, hooks: _Hooks) -> tuple[jax.stages.Traced, jax.stages.Traced]:
    """Trace every hook once; check what it returns, and that no key is used twice. Returns (init, update), traced."""
    init = _traced(agent, "init", hooks.init, env, key)
    state = init.out_info
    _check_state(agent, state)
    update = _traced(agent, "update", hooks.update, state, env, jax.ShapeDtypeStruct((), jnp.int32))
    _check_update(agent, state, update.out_info)
    policy = _trace(agent, "policy_state", lambda a, s: a.policy_state(s), state)
    _check_small(agent, "policy_state", policy)
    reseeded = _trace(agent, "reseed", lambda a, s, k: a.reseed(s, k), state, key)
    check_same_structure(agent, "reseed", state, reseeded)
    restarted = _trace(agent, "new_episodes", lambda a, s, e, k: a.new_episodes(s, e, k), state, env, key)
    check_same_structure(agent, "new_episodes", state, restarted)
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
        raise broken(agent, "init", "gives state.key that is not a key: store one that jax.random.split made of `key`")


def _check_update(agent: Agent, state: AgentState, result: Any) -> None:
    if not (isinstance(result, tuple) and len(result) == 2):
        raise broken(agent, "update", "must return a tuple of two: (state, metrics)")
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
                agent, hook, f"gives {leaf.dtype} at {where} where JAX has 64 bits: set its dtype, such as jnp.float32"
            )


def _check_act(agent: Agent, env: Env, policy: Any, key: Key) -> None:
    start = jax.eval_shape(env.init, key)
    obs, mask = jax.eval_shape(env.observe, start), jax.eval_shape(env.action_mask, start)
    carry = jax.eval_shape(agent.initial_carry)
    for greedy in (True, False):
        act = functools.partial(_act, greedy=greedy)
        result = _trace(agent, "act", act, policy, obs, carry, key, mask)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise broken(agent, "act", "must return a tuple of two: (action, carry)")
        if jax.tree.structure(result[1]) != jax.tree.structure(carry) or not same_shapes(result[1], carry):
            raise broken(agent, "act", f"gives carry {result[1]}, but initial_carry {carry}: keep shapes and dtypes")
        if reason := misfit(env.action_space, result[0], "the action"):
            raise broken(agent, "act", f"disagrees with action_space when greedy={greedy}: {reason}")


def _act(agent: Agent, policy: Any, obs: Any, carry: Any, key: Key, mask: Any, greedy: bool) -> Any:
    return agent.act(policy, obs, carry, key, greedy, mask)


def _trace(agent: Agent, hook: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Shapes and dtypes of what `call(agent, *arguments)` returns, with all leaves of its arguments traced."""
    return _traced(agent, hook, call, *arguments).out_info


def _traced(agent: Agent, hook: str, call: Callable[..., Any], *arguments: Any) -> jax.stages.Traced:
    with jax.debug_key_reuse(True), tracing(agent, hook):
        return jax.jit(call).trace(agent, *arguments)


# The values that the hooks compute.


def _check_hyperparameters_are_traced(agent: Agent) -> None:
    for name, low in _smallest_values(agent).items():
        other = to_arrays(agent.replace(**{name: low}))
        if jax.tree.structure(other) != jax.tree.structure(agent) or not same_shapes(other, agent):
            raise broken(agent, name, "recompiles when it changes: static fields must not be made from it")


def _smallest_values(agent: Agent) -> dict[str, Any]:
    """The lower end of the search range of each `hyper` field, or its default if it has none."""
    searches = {name: info_of(field).search for name, field in hyper_fields(agent).items()}
    return {name: hyper_fields(agent)[name].default if s is None else s.low for name, s in searches.items()}


class _Programs(NamedTuple):
    """The compiled hooks; each is compiled once and used for all members."""

    init: Callable[[Agent, Env, Key], AgentState]
    update: Callable[..., tuple[AgentState, Metrics]]

    def train(self, agent: Agent, env: Env, state: AgentState, updates: int, clock: int = 0) -> AgentState:
        """The state of one member after `updates` more updates."""
        for i in range(updates):
            state, _ = self.update(agent, state, env, jnp.int32(clock + i))
        return state


def _check_members(agent: Agent, env: Env, key: Key, updates: int, hooks: _Hooks, programs: _Programs) -> None:
    k_one, k_two, k_copy, k_rollout = jax.random.split(key, 4)
    start = programs.init(agent, env, k_one)
    if np.array_equal(numbers(start.key), numbers(programs.init(agent, env, k_two).key)):
        raise broken(agent, "init", "gives the same state.key for two keys: derive it from `key`")
    early = programs.train(agent, env, start, VMAPPED_UPDATES)
    last = programs.train(agent, env, early, updates - VMAPPED_UPDATES, VMAPPED_UPDATES)
    _check_age(agent, {0: start, VMAPPED_UPDATES: early, updates: last})
    _check_policy(agent, env, last, k_rollout)
    _check_copy(agent, env, start, last, k_copy, programs)
    late = programs.train(agent, env, start, updates, LATE_CLOCK)
    where = difference(agent.policy_state(last), agent.policy_state(late), exact=True)
    if where is not None:
        raise broken(
            agent,
            "update",
            f"leaves another policy (at {where}) where the clock begins at {LATE_CLOCK}: schedules must follow "
            "state.age, and a replay must sample only the steps of this member",
        )
    other = to_arrays(agent.replace(**_smallest_values(agent)))
    other_early = programs.train(other, env, programs.init(other, env, k_one), VMAPPED_UPDATES)
    other_last = programs.train(other, env, other_early, updates - VMAPPED_UPDATES, VMAPPED_UPDATES)
    _check_hyperparameters_matter(agent, other, last, other_last, updates)
    _check_vmapped(agent, other, env, (k_one, k_two), (early, other_early), hooks)


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
        raise broken(agent, "reseed", "with a member's own key changes how it trains: store `key` as state.key")
    other = programs.train(agent, env, copy, updates)
    key_changes = not np.array_equal(numbers(start.key), numbers(last.key))
    key_matters = difference(_unkeyed(other), _unkeyed(last), exact=True) is not None
    if key_matters and not key_changes:
        raise broken(agent, "update", "uses state.key and does not change it: split it, and store a part for later")
    if key_changes and not key_matters:
        raise broken(
            agent, "update", f"does the same after reseed: in {updates} updates no random number came from state.key"
        )


def _unkeyed(tree: Any) -> list[Any]:
    """All leaves that are not keys."""
    return [leaf for leaf in jax.tree.leaves(tree) if not is_key(leaf)]


def _check_hyperparameters_matter(
    agent: Agent, other: Agent, last: AgentState, other_last: AgentState, updates: int
) -> None:
    differ = difference(agent, other, exact=True) is not None
    if not differ or updates * agent.steps_per_update <= float(np.asarray(agent.learns_from)):
        return
    if difference(_unkeyed(last), _unkeyed(other_last), exact=True) is None:
        raise broken(
            agent,
            "update",
            f"gives the same member with other hyperparameters ({', '.join(_smallest_values(agent))}): use them",
        )


def _check_vmapped(
    agent: Agent,
    other: Agent,
    env: Env,
    keys: tuple[Key, Key],
    alone: tuple[AgentState, AgentState],
    hooks: _Hooks,
) -> None:
    """Train four members under vmap: two settings with two keys each. `alone` has the states of the first two."""

    def train(agent: Agent, key: Key) -> AgentState:
        start = hooks.init(agent, env, key)
        updates = np.int32(VMAPPED_UPDATES)
        return jax.lax.fori_loop(np.int32(0), updates, lambda i, s: hooks.update(agent, s, env, i)[0], start)

    agents = jax.tree.map(lambda *x: np.stack(x), agent, other, agent, other)
    members = jnp.stack([keys[0], keys[0], keys[1], keys[1]])
    program = _traced(agents, "update", jax.vmap(train), members).lower().compile()  # hooks are not traced again
    states = jax.tree.map(numbers, program(agents, members))  # on the host: taking rows there compiles nothing
    for i, member in enumerate(alone):
        where = difference(jax.tree.map(lambda x, i=i: x[i], states), member, exact=False)
        if where is not None:
            raise broken(
                agent,
                "update",
                f"gives another member under vmap than alone (at {where}): write it for one member, without shapes or "
                "orders of summation that depend on the number of members",
            )


def _check_policy(agent: Agent, env: Env, state: AgentState, key: Key) -> None:
    """Act in a short rollout, with the state and with its policy, and compare the actions and values of both."""
    space = env.action_space

    def rollout(agent: Agent, env: Env, state: AgentState, key: Key) -> dict[str, Any]:
        k_init, k_steps = jax.random.split(key)
        policy = agent.policy_state(state)  # in here, so that what it only copies is compiled once, not once for each
        start = env.init(k_init), agent.initial_carry()

        def step(loop: tuple[Any, Any], key: Key) -> tuple[tuple[Any, Any], dict[str, Any]]:
            env_state, carry = loop
            k_act, k_other, k_env = jax.random.split(key, 3)
            obs, mask = env.observe(env_state), env.action_mask(env_state)
            (action, next_carry), (same, _) = (agent.act(s, obs, carry, k_act, False, mask) for s in (state, policy))
            best = agent.act(state, obs, carry, k_act, True, mask)[0]
            same_best = agent.act(policy, obs, carry, k_other, True, mask)[0]
            env_state, _, terminated, truncated, _ = env.advance(env_state, action, env.noise(k_env))
            done = terminated | truncated
            loop = jax.tree.map(lambda new, old: jnp.where(done, new, old), start, (env_state, next_carry))
            record = {"sampled": (action, same), "greedy": (best, same_best), "mask": mask}
            record["inside"] = space.contains(action) & space.contains(best)
            if value := getattr(agent, "value", None):
                record["value"] = tuple(value(s, obs) for s in (state, policy))
            return loop, record

        return jax.lax.scan(step, start, jax.random.split(k_steps, NUM_STEPS))[1]

    run = jax.jit(jax.vmap(rollout, (None, None, None, 0)))
    record = run(agent, env, state, jax.random.split(key, NUM_ENVS))
    record = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), record)
    _check_actions(agent, env, record)
    if difference(*record["greedy"], exact=False) is not None:
        raise broken(
            agent,
            "act",
            "acts otherwise with policy_state(state) than with the state when greedy: keep all that act reads in "
            "policy_state, and do not use the key when greedy",
        )
    for what, hook in (("sampled", "act"), ("value", "value")):
        if what in record and difference(*record[what], exact=False) is not None:
            raise broken(
                agent, hook, "differs with policy_state(state) from that with the state: keep all that it reads there"
            )


def _check_actions(agent: Agent, env: Env, record: dict[str, Any]) -> None:
    """Check that all actions of a rollout are in the action space and allowed by the mask."""
    space = env.action_space
    for action in (record["sampled"][0], record["greedy"][0]):
        if not record["inside"].all():
            of_step = jax.tree.map(lambda x: x[np.argmin(record["inside"])], action)
            if reason := explain(space, of_step, "the action"):
                raise broken(agent, "act", f"leaves action_space: {reason} {space}")
        if record["mask"] is not None and isinstance(space, Discrete):
            allowed = np.take_along_axis(record["mask"], action[:, None], axis=1)[:, 0]
            if not allowed.all():
                step = np.argmin(allowed)
                raise broken(
                    agent, "act", f"takes action {action[step]}, which the mask {record['mask'][step]} forbids"
                )
