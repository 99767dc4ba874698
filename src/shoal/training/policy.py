"""Trained policies: one (`Policy`) or those of a population (`Policies`), and how they are loaded."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from shoal.core.agent import Actor, Agent
from shoal.core.aliases import OTHER_METHODS
from shoal.core.env import Env, Key, State
from shoal.core.errors import CheckpointError, refuse_attributes
from shoal.core.keys import is_key, key_or_seed, make_key
from shoal.core.process import check_process
from shoal.core.spaces import Discrete, Space, mask_size, misfit, permits, random_action
from shoal.core.struct import static, struct
from shoal.core.wrappers.base import Wrapper
from shoal.rollouts.evaluate import act_on_batch, initial_carries
from shoal.specs.roster import Roster
from shoal.specs.sources import with_trusted_files
from shoal.specs.spec import RunSpec, opaque_fields
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.plan import Plan, make_plan
from shoal.training.program import begin
from shoal.training.run_state import RunState

MOST_PROGRAMS = 500  # that are kept; each has 12 of the 65,530 memory maps that Linux gives a process


class Policy:
    """The policy of one member. Call it with one observation or a batch of them; it returns NumPy actions.

    `actor` is a bound agent, or another object with its methods `act` and `initial_carry`; `weights` is the policy
    state that `act` reads. A recurrent policy keeps its carry between calls, until `reset`.

        policy = shoal.load("runs/ppo-CartPole-v1")
        action = policy(observation)
    """

    def __init__(self, actor: Any, weights: Any, env: Env, name: str = "") -> None:
        """Make a policy. `env` is the environment it was trained in."""
        self.actor, self.weights, self.env, self.name = actor, weights, env, name
        self._carry: Any = None
        self._episodes = 0  # the size of the batch that the carry belongs to; 0 for a single observation

    def __repr__(self) -> str:
        return f"<{type(self.actor).__name__} policy for {type(self.env).__name__}{', ' * bool(self.name)}{self.name}>"

    def __call__(self, obs: Any, mask: Any = None) -> Any:
        """Return the greedy action for an observation or a batch of B. Raises ValueError for another shape or dtype.

        `mask` says which actions are allowed, as the environment's `action_mask` does: bool [A], or [B, A] for a batch.
        An environment that has masks needs it.
        """
        return self._act(obs, mask, make_key(0), greedy=True)

    def sample(self, obs: Any, key: Key | SupportsIndex, mask: Any = None) -> Any:
        """Return an action sampled as in training. `key` is a key (consumed) or an integer seed."""
        return self._act(obs, mask, key_or_seed(key), greedy=False)

    def reset(self) -> None:
        """Reset the recurrent carry; call it at the start of an episode."""
        self._carry = None

    def _act(self, obs: Any, mask: Any, key: Key, greedy: bool) -> Any:
        check_process()
        _check_arguments(obs, mask)
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((obs, key, mask))):
            return self._act_inside_jit(obs, mask, key, greedy)
        obs, batch = fit_observation(self.env.observation_space, obs)
        mask = self._fit_mask(mask, batch)
        carry = self._carry
        if carry is None:
            carry = initial_carries(self.actor, batch) if batch else self.actor.initial_carry()
        elif batch != self._episodes and jax.tree.leaves(carry):
            before, now = (f"{size} observations" if size else "a single one" for size in (self._episodes, batch))
            raise ValueError(
                f"this policy is recurrent: its carry belongs to {before}, and now it got {now}. Call policy.reset() "
                f"where episodes begin."
            )
        self._episodes = batch
        act: Any = _act_on_many if batch else _act_on_one
        if act._cache_size() >= MOST_PROGRAMS:
            act.clear_cache()
        action, self._carry = act(self.actor, self.weights, obs, carry, key, mask, greedy)
        return jax.tree.map(np.asarray, action)

    def _act_inside_jit(self, obs: Any, mask: Any, key: Key, greedy: bool) -> Any:
        carry = self.actor.initial_carry()
        if jax.tree.leaves(carry):
            raise TypeError(
                "this policy is recurrent: it keeps its carry between calls, which jit and vmap cannot do. Inside "
                "them, pass the carry on yourself, starting from policy.actor.initial_carry(): "
                "action, carry = policy.actor.act(policy.weights, obs, carry, key, greedy)."
            )
        if reason := misfit(self.env.observation_space, obs, "the observation"):
            raise ValueError(f"{reason}. Inside jit give one observation; for a batch use jax.vmap.")
        weights = jax.tree.map(jnp.asarray, self.weights)
        return self.actor.act(weights, obs, carry, key, greedy, self._fit_mask(mask, 0))[0]

    @cached_property
    def _needs_mask(self) -> bool:
        return has_masks(self.env)

    def _fit_mask(self, mask: Any, batch: int) -> Any:
        """Return a mask as booleans [A], or [B, A] for a batch. Raises ValueError for one that fits no action."""
        if mask is not None:
            return fit_mask(self.env.action_space, mask, batch)
        if self._needs_mask:
            raise ValueError(
                f"{type(self.env).__name__} forbids some actions, so the policy needs its mask too: policy(obs, mask), "
                f"with env.action_mask(state), or info['action_mask'] under Gymnasium's calls."
            )
        return None


refuse_attributes(Policy, OTHER_METHODS)


def _check_arguments(obs: Any, mask: Any) -> None:
    if isinstance(obs, tuple) and any(isinstance(part, State) for part in obs):
        raise TypeError(
            "the observation is a tuple with a state: write obs, state = env.reset(key), and then policy(obs)."
        )
    if is_key(mask) or getattr(mask, "dtype", None) == np.uint32:
        raise TypeError(
            "the mask is a random key: policy(observation) needs none, and policy.sample(observation, key) samples."
        )


class Policies:
    """The policies of a population: a sequence of `Policy`. `evaluate` and `rollout` take all of them at once."""

    def __init__(self, actor: Any, weights: Any, env: Env, names: list[str]) -> None:
        """Make the policies of M members. Every leaf of `actor`, `weights` and `env` is [M, ...]."""
        self.actor, self.weights, self.env, self.names = actor, weights, env, names

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, member: int) -> Policy:
        """Return the policy of one member; negative numbers count from the end. Raises IndexError for other numbers."""
        if not -len(self) <= member < len(self):
            raise IndexError(f"member {member} does not exist: the population has members 0 to {len(self) - 1}.")
        actor, weights, env = jax.tree.map(lambda x: x[member], (self.actor, self.weights, self.env))
        return Policy(actor, weights, env, self.names[member])

    def __iter__(self) -> Iterator[Policy]:
        return (self[member] for member in range(len(self)))

    def __repr__(self) -> str:
        return f"<{len(self)} {type(self.actor).__name__} policies for {type(self.env).__name__}>"


@struct
class RandomPolicy(Actor):
    """Samples actions uniformly, of those that the mask allows: the baseline for trained policies."""

    space: Space = static()

    def act(self, state: Any, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None) -> tuple[Any, Any]:
        """Return a uniform action and the carry unchanged. `key` is consumed."""
        del state, obs, greedy
        return random_action(self.space, mask, key), carry


@struct
class Function(Actor):
    """Acts with a pure function of the user's own, `function(observation, key) -> action`."""

    function: Callable = static()

    def act(self, state: Any, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None) -> tuple[Any, Any]:
        """Return the function's action and the carry unchanged."""
        del state, greedy, mask
        return self.function(obs, key), carry


def load_policies(
    path: Path | str,
    which: str = "last",
    agent: Agent | None = None,
    env: Env | None = None,
    *,
    trust_source: bool = False,
) -> tuple[Plan, Policies]:
    """Return the plan of a run and the policies of all members: the last ones, or those of the best evaluation.

    Raises FileNotFoundError if there is no run, CheckpointError if its checkpoint is missing or damaged, and
    ValueError for a run that needs `agent=` or `env=`, because no file can describe them.
    """
    folder = RunFolder(path)
    spec = check_complete(folder, agent, env, trust_source=trust_source)
    # A policy can be read where there are fewer devices than the run had.
    plan = make_plan(dataclasses.replace(spec, devices_per_member=0), agent, env)
    if which not in ("last", "best"):
        raise ValueError(f"which={which!r} is unknown. Choose 'last' or 'best'.")
    return plan, policies_of(plan, folder, which)


def policies_of(plan: Plan, folder: RunFolder, which: str = "last") -> Policies:
    """Return the policies of all members of a run, as `load_policies` does."""
    path, is_exported = checkpoint_of(folder, which), folder.policy.is_dir()
    roster = _roster(plan, folder)
    agents, envs = plan.batched(roster)
    members = jax.eval_shape(partial(_begin_all, plan.spec.prng), agents, envs, plan.roster.seed_index)
    like = jax.eval_shape(policy_states, agents, members.state)
    weights = restored_policies(plan.agent, path, like, folder.spec_hash, half=is_exported)
    return Policies(agents, weights, envs, plan.names(roster))


def restored_policies(agent: Agent, path: Path, like: Any, spec: str, *, half: bool = False) -> Any:
    """Return the policies [M, ...] of a checkpoint as `agent` acts with them; the rest is as in `checkpoint.restore`.

    Raises its errors, and ValueError for weights of another revision of the agent that cannot be upgraded.
    """
    weights = checkpoint.restore(path, checkpoint.POLICIES, like, spec, half=half)
    return upgraded(agent, weights, checkpoint.about_of(path))


def upgraded(agent: Agent, policies: Any, about: Mapping[str, Any]) -> Any:
    """Return policies [M, ...] of a checkpoint as this revision of the agent acts with them."""
    revision = about.get("agent_revision", 1)  # older checkpoints lack it
    return policies if revision == agent.revision else agent.upgraded(policies, revision)


def _roster(plan: Plan, folder: RunFolder) -> Roster:
    """Return the roster at the last checkpoint. Without a selector it is always the first one."""
    if plan.selector is None:
        return plan.roster
    like = RunState.first(plan.roster, plan.selector).arrays()
    path = checkpoint_of(folder, "last")
    return plan.roster.restored(checkpoint.restore(path, checkpoint.RUN, like, folder.spec_hash)["roster"])


def checkpoint_of(folder: RunFolder, which: str) -> Path:
    """Return the path of the checkpoint with the "last" or "best" policies. An exported policy has only one."""
    if folder.policy.is_dir():
        return folder.policy
    if which == "best":
        return folder.best
    found = checkpoint.newest(folder.checkpoints)
    if found is None:
        raise CheckpointError(f"{folder.path} has no checkpoint yet: its first chunk was never finished.")
    return found


def check_complete(
    folder: RunFolder,
    agent: Agent | None = None,
    env: Env | None = None,
    *,
    trust_source: bool = False,
    spec: RunSpec | None = None,
) -> RunSpec:
    """Return the spec of a run after checking that all its parts are available. None of their code is run.

    `spec` is given where the folder is on another machine.
    Raises ValueError if no file can describe a part and `agent` or `env` is missing, or if a file of the user's
    own is gone or has changed and `trust_source` does not allow its copy in the folder.
    """
    spec = folder.read_spec() if spec is None else spec
    check_opaque_parts(spec, str(folder.path), agent, env)
    return with_trusted_files(spec, folder.path, agent, env, trust_source=trust_source)


def check_opaque_parts(spec: RunSpec, where: str, agent: Agent | None = None, env: Env | None = None) -> None:
    """Raise ValueError if no file can describe a part of a spec, and the agent or env that has it is missing."""
    for kind, value, prefixed in (("agent", agent, False), ("env", env, True)):
        opaque = [name for name in opaque_fields(spec) if (name.split(".")[0] == "env") == prefixed]
        if opaque and value is None:
            raise ValueError(
                f"{where} was made in Python with {_with_article(opaque)} of your own, which no file can hold: give "
                f"{kind}= as it was given to train, as in shoal.load(run, {kind}={kind})."
            )


def _with_article(paths: Sequence[str]) -> str:
    """Return `a network, an activation` for the paths of fields; `env` and `agent` are named by their words."""
    words = ["environment" if path == "env" else path for path in paths]
    return ", ".join(f"{'an' if word[0] in 'aeiou' else 'a'} {word}" for word in words)


def fit_observation(space: Space, obs: Any) -> tuple[Any, int]:
    """Return (an observation in the dtypes of its space, the size of its batch, or 0 for a single observation).

    Numbers of another width, such as NumPy's float64, are converted. Raises ValueError for other shapes or kinds.
    """
    one = jax.eval_shape(space.sample, make_key(0))
    if jax.tree.structure(one) != jax.tree.structure(obs) and not hasattr(one, "shape"):
        raise ValueError(f"the observation {misfit(space, obs, 'it')}. The observation space is {space}.")
    if isinstance(space, Discrete):
        given = np.asarray(obs)
        if np.issubdtype(given.dtype, np.integer) and not np.all((given >= 0) & (given < space.n)):
            raise ValueError(f"the observation {obs} is not in {space}: it must be from 0 to {space.n - 1}.")
    arrays = jax.tree.map(lambda like, x: _in_dtype(np.asarray(x), like.dtype, space), one, obs)
    if misfit(space, arrays, "the observation") is None:
        return arrays, 0
    sizes = {np.shape(x)[0] if np.ndim(x) else 0 for x in jax.tree.leaves(arrays)}
    if len(sizes) == 1 and (size := sizes.pop()):
        reason = misfit(space, jax.tree.map(lambda x: x[0], arrays), "the observation")
        if reason is None:
            return arrays, size
    reason = misfit(space, arrays, "the observation")
    raise ValueError(f"{reason}. Give one observation of {space}, or a batch with one more axis in front.")


def has_masks(env: Env) -> bool:
    """Return whether an environment has action masks. It is traced only where a class defines them."""
    inner = [env]
    while isinstance(inner[-1], Wrapper):
        inner.append(inner[-1].env)
    if all(type(part).action_mask in (Env.action_mask, Wrapper.action_mask) for part in inner):
        return False
    return jax.eval_shape(lambda: env.action_mask(env.init(make_key(0)))) is not None


def fit_mask(space: Space, mask: Any, batch: int) -> Any:
    """Return a mask as booleans [A], or [B, A] for a batch of B. It may be a tuple of parts, as Gymnasium has it.

    Raises ValueError for another shape, for numbers other than 0 and 1, and where it allows no action.
    """
    if not (size := mask_size(space)):
        raise ValueError(f"actions of {space} have no mask: leave it out.")
    traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(mask))
    arrays: Any = jnp if traced else np
    try:
        array = arrays.concatenate(mask, -1) if isinstance(mask, tuple) else arrays.asarray(mask)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the mask {mask!r:.60} is no array of booleans.") from error
    shape = (batch, size) if batch else (size,)
    if array.shape != shape:
        what = f"{batch} observations" if batch else "one observation"
        raise ValueError(f"the mask has the shape {array.shape}; for {what} and actions of {space} it is {shape}.")
    if array.dtype != bool and (array.dtype.kind not in "iu" or not traced and not np.isin(array, (0, 1)).all()):
        raise ValueError(f"the mask holds {array.dtype} numbers: it must hold booleans, or 0 and 1.")
    array = array.astype(bool)
    if not traced and not np.all(permits(space, array)):
        raise ValueError("the mask allows no action: at least one must be True, with MultiDiscrete in every part.")
    return array


def _in_dtype(array: np.ndarray, dtype: Any, space: Space) -> np.ndarray:
    is_whole = np.issubdtype(array.dtype, np.integer) and np.issubdtype(dtype, np.integer)
    if is_whole and np.all((array >= np.iinfo(dtype).min) & (array <= np.iinfo(dtype).max)):
        return array.astype(dtype)
    if array.dtype != dtype and (array.dtype == object or not np.can_cast(array.dtype, dtype, "same_kind")):
        raise ValueError(f"the observation is of {array.dtype}, where {space} holds {dtype}: convert it first.")
    return array.astype(dtype)


def _begin_all(prng: str, agent: Agent, env: Env, seed_index: Any) -> Any:
    return jax.vmap(begin, (0, 0, 0, None))(agent, env, seed_index, make_key(0, prng))


def policy_states(agent: Agent, state: Any) -> Any:
    """Return the policy states (`Agent.policy_state`) of M agent states; all leaves are [M, ...]."""
    return jax.vmap(type(agent).policy_state)(agent, state)


@jax.jit(static_argnames="greedy")
def _act_on_one(actor: Any, weights: Any, obs: Any, carry: Any, key: Key, mask: Any, greedy: bool) -> Any:
    return actor.act(weights, obs, carry, key, greedy, mask)


@jax.jit(static_argnames="greedy")
def _act_on_many(actor: Any, weights: Any, obs: Any, carry: Any, key: Key, mask: Any, greedy: bool) -> Any:
    keys = jax.random.split(key, jax.tree.leaves(obs)[0].shape[0])
    return act_on_batch(actor, weights, obs, carry, keys, greedy, mask)
