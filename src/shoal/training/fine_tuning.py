"""Begin a run with the policies of another run: fine-tuning, or training on in a changed environment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shoal.core.agent import Agent
from shoal.core.keys import make_key
from shoal.specs.spec import NAMED
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.plan import Plan
from shoal.training.policy import checkpoint_of, restored_policies
from shoal.training.program import Member, begin
from shoal.training.result import Result


def described_init(init: Path | str | Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of the first policies for a spec: `{"run", "member", "which", "spec"}`.

    `init` is a run, which means its best member for all members, or a dict: `{"run": "runs/x", "member": 3}`, with
    `"member": "all"` for the policy of member m for member m, and `"which": "best"` for the weights of the best
    evaluation. `spec` is the hash of that run's spec. Raises ValueError for anything else, FileNotFoundError if
    there is no run.
    """
    options: dict[str, Any] = dict(init) if isinstance(init, Mapping) else {"run": init}
    if unknown := {*options} - {"run", "member", "which", "spec"}:
        raise ValueError(f"init has {', '.join(sorted(unknown))}, and takes run, member and which.")
    if "run" not in options:
        raise ValueError('init needs the run that it takes policies from: {"run": "runs/x"}.')
    which, member = options.get("which", "last"), options.get("member", "best")
    result = Result(options["run"])
    run = str(options["run"])
    return {
        "run": run if run.startswith(NAMED) else str(Path(run).resolve()),
        "member": "all" if member == "all" else result.number_of(member, which),
        "which": which,
        "spec": RunFolder(run).spec_hash,
    }


def first_policies(plan: Plan) -> Any:
    """Return the policy states [M, ...] that the members of a run begin with, by its spec.

    Only arrays are read: the agent and the environment of the other run are not built, so none of its code is run.
    Raises ValueError for other shapes, another number of members, or a run that was replaced in the meantime.
    """
    init = plan.spec.init
    folder = RunFolder(init["run"])
    if folder.spec_hash != init["spec"]:
        raise ValueError(f"{init['run']}, which this run begins with, is another run by now.")
    path, is_exported = checkpoint_of(folder, init["which"]), folder.policy.is_dir()
    there = checkpoint.table_of(path, checkpoint.POLICIES, half=is_exported)
    one = _policy_shapes(plan)
    _check_shapes(init["run"], there, checkpoint.leaf_table(one))
    count = next(iter(there.values()))[0][0]
    if init["member"] == "all" and count != plan.members and not plan.spec.branch:
        raise ValueError(
            f"{init['run']} has {count} members and this run {plan.members}, so not every member has a "
            f'policy to begin with: give one member for all, {{"run": ..., "member": 0}}.'
        )
    if init["member"] != "all" and not -count <= init["member"] < count:
        raise ValueError(f"{init['run']} has members 0 to {count - 1}, so none can begin with {init['member']}.")
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct((count, *x.shape), x.dtype), one)
    weights = restored_policies(plan.agent, path, like, folder.spec_hash, half=is_exported)
    if init["member"] == "all":
        return jax.tree.map(lambda x: x[plan.twins(count)], weights) if plan.spec.branch else weights
    one_policy = jax.tree.map(lambda x: x[init["member"]], weights)
    return jax.tree.map(lambda x: np.broadcast_to(x, (plan.members, *np.shape(x))), one_policy)


def with_policies(plan: Plan, members: Any, weights: Any) -> Any:
    """Return new members [M] with the weights of these policies [M]."""

    def one(agent: Agent, member: Member, policy: Any) -> Member:
        return member.replace(state=agent.with_policy(member.state, policy))

    return jax.jit(jax.vmap(one))(plan.batched().agent, members, weights)


def _policy_shapes(plan: Plan) -> Any:
    """Return the shapes of one member's policy state. Raises TypeError for an agent that cannot begin with a policy."""

    def policy_of(agent: Any, env: Any) -> Any:
        state = begin(agent, env, jax.numpy.int32(0), make_key(0)).state
        return agent.policy_state(agent.with_policy(state, agent.policy_state(state)))

    return jax.eval_shape(policy_of, plan.agent, plan.env)


def _check_shapes(run: str, there: dict[str, list], here: dict[str, list]) -> None:
    """Raise ValueError for the first array whose shape differs. The arrays `there` have an axis of members in front."""
    there = checkpoint.with_rounding({name: [shape[1:], dtype] for name, (shape, dtype) in there.items()}, here)
    for name in (*here, *there):
        if here.get(name) != there.get(name):
            shapes = [table[name][0] if name in table else "absent" for table in (there, here)]
            raise ValueError(
                f"the policies of {run} do not fit this agent and environment: give the same kind of agent with the "
                f"same network and normalize_observation, and an environment with the same spaces. The first "
                f"difference: {name} is {shapes[0]} there and {shapes[1]} here."
            )
