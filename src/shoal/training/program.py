"""The compiled programs of a run: begin, train a chunk, evaluate. Pure functions of one member, placed on everyone."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from shoal.core.agent import Agent, AgentState, Buffer, Metrics
from shoal.core.env import Env, Key
from shoal.core.keys import member_key
from shoal.core.struct import Struct, struct
from shoal.rollouts.evaluate import Evaluation, evaluate


@struct
class Member(Struct):
    """One member of a population: its learner, and whether its numbers are still finite."""

    state: AgentState
    alive: Bool[Array, ""]


def begin(agent: Agent, env: Env, seed_index: Int[Array, ""], run_key: Key) -> Member:
    """A new member. Its key depends on the run and on its seed index, on nothing else."""
    return Member(agent.init(member_key(run_key, seed_index), env), jnp.asarray(True))


def reseed(member: Member, agent: Agent, occupant: Int[Array, ""], key: Key) -> Member:
    """A copied member with random numbers of its own, which follow from its occupant's number. `key` is shared."""
    return member.replace(state=agent.reseed(member.state, jax.random.fold_in(key, occupant)))


def rest(member: Member) -> Member:
    """A member that is trained no more."""
    return member.replace(alive=jnp.asarray(False))


def train_chunk(
    member: Member, agent: Agent, env: Env, clock: Int[Array, ""], updates: Int[Array, ""]
) -> tuple[Member, Metrics]:
    """`updates` updates of one member: (member, episodes summed and losses averaged over them; NaN: nothing learned).

    An update is undone where its losses or the policy that it leaves are not finite, and the member rests from then on:
    its state stays the last good one, and nothing more is counted. `updates` is traced, so that chunks of any length
    share one program.
    """
    update = jax.jit(type(agent).update)  # traced once, for its shapes and for the loop
    shapes = jax.eval_shape(update, agent, member.state, env, clock)[1]
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    nothing = nothing.replace(episodes=type(nothing.episodes).zero())

    def one_update(i: Int[Array, ""], loop: tuple[Member, Metrics]) -> tuple[Member, Metrics]:
        member, total = loop
        state, metrics = update(agent, member.state, env, clock + i)
        # Losses are those of before the last gradient step: only the policy shows what that one did.
        alive = member.alive & all_finite((metrics.losses, agent.policy_state(state)))
        losses = jax.tree.map(lambda x, new: x + metrics.weight * new, total.losses, metrics.losses)
        with_this = Metrics(total.episodes.merge(metrics.episodes), losses, total.weight + metrics.weight)
        return Member(_where(alive, state, member.state), alive), _where(alive, with_this, total)

    member, total = jax.lax.fori_loop(0, updates, one_update, (member, nothing))
    return member, total.replace(losses=jax.tree.map(lambda x: x / total.weight, total.losses))


def _where(alive: Bool[Array, ""], new: Any, old: Any) -> Any:
    """The new values of a member that lives. Buffers are always the new ones: a choice would copy them, and a member
    that rests never reads them again."""

    def choose(new: Any, old: Any) -> Any:
        return new if isinstance(new, Buffer) else jnp.where(alive, new, old)

    return jax.tree.map(choose, new, old, is_leaf=lambda x: isinstance(x, Buffer))


@lru_cache(maxsize=64)
def evaluator(episodes: int, horizon: int, greedy: bool) -> Callable[..., tuple[Evaluation, Any]]:
    """An evaluation of one member under its own stream of random numbers, which training never touches.

    The same function for the same settings, so that JAX compiles it once a process.
    """

    def run(member: Member, agent: Agent, env: Env, seed_index: Int[Array, ""], key: Key) -> tuple[Evaluation, Any]:
        policy = agent.policy_state(member.state)
        return evaluate(agent, policy, env, jax.random.fold_in(key, seed_index), episodes, horizon, greedy), policy

    return run


def all_finite(tree: Any) -> Bool[Array, ""]:
    """Whether every number is finite."""
    numbers = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(jnp.result_type(x), jnp.inexact)]
    return jnp.all(jnp.asarray([jnp.all(jnp.isfinite(x)) for x in numbers], bool))
