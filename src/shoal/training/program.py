"""The functions that a run compiles: begin, train a chunk, evaluate. Each is a pure function of one member.

`placement` batches them over members.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, Bool, Int

from shoal.core.agent import Agent, AgentState, Buffer, Guarded, Metrics
from shoal.core.env import Env, Key
from shoal.core.form import Form, current, using
from shoal.core.keys import make_key, member_key, stream
from shoal.core.struct import Struct, struct
from shoal.ops import sums
from shoal.ops.devices import DATA
from shoal.rollouts.evaluate import Evaluation, evaluate


@struct
class Member(Struct):
    """One member of a population."""

    state: AgentState
    alive: Bool[Array, ""]  # False: a loss or a weight was not finite, or its slot is idle; it is not trained any more


class Split(NamedTuple):
    """How several devices share the environments of each member: which axis of each leaf they are along, if any."""

    devices: int  # D, for each member
    structure: Any  # of a Member, as a tree
    axes: tuple[int | None, ...]  # for each leaf of one member; None: the leaf is equal on all devices
    form: Form  # of the programs, which decides the leaves

    @property
    def specs(self) -> Any:
        """The partition of every leaf [M, ...] of members over a mesh with the axes `members` and `DATA`."""

        def spec(axis: int | None) -> PartitionSpec:
            return PartitionSpec("members") if axis is None else PartitionSpec("members", *[None] * axis, DATA)

        return jax.tree.unflatten(self.structure, [spec(axis) for axis in self.axes])


def split_over(agent: Agent, env: Env, devices: int, form: Form) -> Split:
    """Return how `devices` devices share each member of a bound agent.

    A leaf is split along the axis that is shorter in the state of the split agent. Raises ValueError or Unsuited for an
    agent that cannot be split (`Agent.split`).
    """

    def begun(agent: Agent) -> Member:
        return begin(agent, env, jnp.int32(0), make_key(0))

    on_each = jax.vmap(lambda agent, _: begun(agent), in_axes=(None, 0), axis_name=DATA)  # leaves [D, ...]
    with using(form):
        whole = jax.eval_shape(begun, agent)
        part = jax.eval_shape(on_each, agent.split(devices), jnp.arange(devices))

    def axis(x: Any, own: Any) -> int | None:
        return next((i for i, size in enumerate(x.shape) if own.shape[i + 1] != size), None)

    axes = (axis(x, own) for x, own in zip(jax.tree.leaves(whole), jax.tree.leaves(part), strict=True))
    return Split(devices, jax.tree.structure(whole), tuple(axes), form)


def begin(agent: Agent, env: Env, seed_index: Int[Array, ""], run_key: Key) -> Member:
    """Return a new member. Its key depends only on the run key and its seed index."""
    return Member(agent.init(member_key(run_key, seed_index), env), jnp.asarray(True))


def reseed(member: Member, agent: Agent, occupant: Int[Array, ""], key: Key) -> Member:
    """Return a copy of a member with another random key, made from the shared `key` and its occupant number."""
    copy = jax.tree.map(jnp.copy, member)  # arrays of its own: without this, `jit` would return those of its argument
    return copy.replace(state=agent.reseed(copy.state, jax.random.fold_in(key, occupant)))


def reseed_in_new_episodes(member: Member, agent: Agent, env: Env, occupant: Int[Array, ""], key: Key) -> Member:
    """Return a copied member with another random key, as `reseed` does, at the start of new episodes."""
    copy = reseed(member, agent, occupant, key)
    k_envs = jax.random.fold_in(stream(key, "new episodes"), occupant)
    return copy.replace(state=agent.new_episodes(copy.state, env, k_envs))


def rest(member: Member) -> Member:
    """Return the member marked as no longer trained, for an idle slot."""
    return member.replace(alive=jnp.asarray(False))


def train_chunk(
    member: Member, agent: Agent, env: Env, total: Metrics | None, clock: Int[Array, ""], updates: Int[Array, ""]
) -> tuple[Member, Metrics]:
    """Do `updates` updates of one member. Returns (member, `total` with the metrics of these updates added).

    `total` has the sums since the last record; None stands for those of no update (`no_metrics`).

    If the losses or the new policy of an update are not finite, the update is undone and the member is not trained any
    more: it keeps its last finite state, and later updates do not count. `updates` is traced, so that chunks of any
    length, and parts of a chunk, share one program.
    """
    update = jax.jit(type(agent).update)  # `jit`, so that it is traced once for both the shapes and the loop
    if total is None:
        total = no_metrics(jax.eval_shape(update, agent, guard(member), env, clock)[1])

    def one_update(i: Int[Array, ""], loop: tuple[Member, Metrics]) -> tuple[Member, Metrics]:
        member, total = loop
        state, metrics = update(agent, guard(member), env, clock + i)
        return after_update(member, agent, state, metrics, total)

    return jax.lax.fori_loop(0, updates, one_update, (member, total))


def after_update(
    member: Member, agent: Agent, state: AgentState, metrics: Metrics, total: Metrics
) -> tuple[Member, Metrics]:
    """Return (the member, the metrics of the chunk so far) after an update that ended with this state and metrics."""
    # The losses were computed before the last gradient step; only the policy shows whether that step was finite.
    policy, kept = agent.policy_state(state), {}
    alive = member.alive
    if isinstance(state, Guarded) and state.is_stopped is not None:
        alive &= ~state.is_stopped
        state = state.replace(is_stopped=None)
        kept = {name: getattr(state, name) for name in state.guarded}
        policy = without(policy, kept)  # guarded weights are always finite; looking at them would read them all
    alive &= all_finite((metrics.losses, policy))
    more = jax.tree.map(lambda x: metrics.weight * x, metrics.losses), jnp.asarray(metrics.weight, jnp.float32)
    (losses, weight), rounding = sums.add_trees((total.losses, total.weight), total.rounding, more)
    new_total = Metrics(total.episodes.merge(metrics.episodes), losses, weight, rounding)
    state = where_alive(alive, state, member.state)
    return Member(state.replace(**kept) if kept else state, alive), where_alive(alive, new_total, total)


def guard(member: Member) -> AgentState:
    """Return the state for an update; in forms with guarded steps it knows whether the member is stopped."""
    if current().guarded_steps and isinstance(member.state, Guarded):
        return member.state.replace(is_stopped=~member.alive)
    return member.state


def without(tree: Any, others: Any) -> list[Any]:
    """Return the leaves of a tree that are not leaves of another one."""
    known = {id(x) for x in jax.tree.leaves(others)}
    return [x for x in jax.tree.leaves(tree) if id(x) not in known]


def no_metrics(like: Metrics) -> Metrics:
    """Return the metrics of no update of one member, in the dtypes of others."""
    zero = jax.tree.map(lambda x: jnp.zeros((), x.dtype), like)
    return zero.replace(episodes=type(zero.episodes).zero(), rounding=(zero.losses, zero.weight))


def where_alive(alive: Bool[Array, ""], new: Any, old: Any) -> Any:
    """Return the new tree where `alive`, otherwise the old one; of buffers always the new ones.

    Selecting would copy a buffer, and a member that is no longer trained never reads it.
    """

    def select(new: Any, old: Any) -> Any:
        return new if isinstance(new, Buffer) else jnp.where(alive, new, old)

    return jax.tree.map(select, new, old, is_leaf=lambda x: isinstance(x, Buffer))


@lru_cache(maxsize=64)
def evaluator(episodes: int, horizon: int, greedy: bool) -> Callable[..., tuple[Evaluation, Any]]:
    """Return a function that evaluates one member with random numbers that depend on its seed index.

    Equal arguments give the same function, so that JAX compiles it once in a process.
    """

    def run(member: Member, agent: Agent, env: Env, seed_index: Int[Array, ""], key: Key) -> tuple[Evaluation, Any]:
        agent, policy = agent.at(member.state.age), agent.policy_state(member.state)
        return evaluate(agent, policy, env, jax.random.fold_in(key, seed_index), episodes, horizon, greedy), policy

    return run


def all_finite(tree: Any) -> Bool[Array, ""]:
    """Return whether all floats in a tree are finite."""
    numbers = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(jnp.result_type(x), jnp.inexact)]
    return jnp.all(jnp.asarray([jnp.all(jnp.isfinite(x)) for x in numbers], bool))
