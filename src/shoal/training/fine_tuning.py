"""Begin a run with the policies of another: fine-tuning, or the same task in a changed world."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shoal.core.agent import Agent
from shoal.core.keys import make_key
from shoal.training import checkpoint
from shoal.training.folder import ZOO_PREFIX, RunFolder
from shoal.training.plan import Plan
from shoal.training.policy import load_policies
from shoal.training.program import Member, begin
from shoal.training.result import Result


def described_init(init: Path | str | Mapping[str, Any]) -> dict[str, Any]:
    """Which policies a run begins with, for its spec: `{"run", "member", "which"}`, and the hash of that run's spec.

    `init` is a run, which means its best member for everyone, or says more: `{"run": "runs/x", "member": 3}`, or
    `"member": "all"` for member by member; `"which": "best"` for the weights at the best evaluation. Raises ValueError
    for anything else, FileNotFoundError where there is no run.
    """
    given: dict[str, Any] = dict(init) if isinstance(init, Mapping) else {"run": init}
    if unknown := {*given} - {"run", "member", "which", "spec"}:
        raise ValueError(f"init has {', '.join(sorted(unknown))}, and takes run, member and which.")
    if "run" not in given:
        raise ValueError('init needs the run that it takes policies from: {"run": "runs/x"}.')
    which, member = given.get("which", "last"), given.get("member", "best")
    result = Result(given["run"])
    run = str(given["run"])
    return {
        "run": run if run.startswith(ZOO_PREFIX) else str(Path(run).resolve()),
        "member": "all" if member == "all" else result.number_of(member, which),
        "which": which,
        "spec": RunFolder(run).spec_hash,
    }


def first_policies(plan: Plan) -> Any:
    """What acting reads, [M], of the members that a run begins with, as its spec says.

    Raises ValueError in words where they do not fit: other shapes, another number of members, or another run by now.
    """
    init = plan.spec.init
    if RunFolder(init["run"]).spec_hash != init["spec"]:
        raise ValueError(f"{init['run']}, which this run begins with, is another run by now.")
    _, policies = load_policies(init["run"], init["which"])
    if init["member"] == "all":
        if len(policies) != plan.members:
            raise ValueError(
                f"{init['run']} has {len(policies)} members and this run {plan.members}, so not everyone has a "
                f'policy to begin with: give one member for all, {{"run": ..., "member": 0}}.'
            )
        weights = policies.weights
    else:
        one = policies[int(init["member"])].weights
        weights = jax.tree.map(lambda x: np.broadcast_to(x, (plan.members, *np.shape(x))), one)
    _check_shapes(plan, weights)
    return weights


def with_policies(plan: Plan, members: Any, weights: Any) -> Any:
    """Fresh members [M] that begin with what these policies know."""

    def one(agent: Agent, member: Member, policy: Any) -> Member:
        return member.replace(state=agent.with_policy(member.state, policy))

    return jax.jit(jax.vmap(one))(plan.batched().agent, members, weights)


def _check_shapes(plan: Plan, weights: Any) -> None:
    def policy_of(agent: Any, env: Any) -> Any:
        state = begin(agent, env, jax.numpy.int32(0), make_key(0)).state
        return agent.policy_state(agent.with_policy(state, agent.policy_state(state)))

    here = checkpoint.leaf_table(jax.eval_shape(policy_of, plan.agent, plan.env))
    there = {name: [shape[1:], dtype] for name, (shape, dtype) in checkpoint.leaf_table(weights).items()}
    for name in (*here, *there):
        if here.get(name) != there.get(name):
            said = [table[name][0] if name in table else "absent" for table in (there, here)]
            raise ValueError(
                f"the policies of {plan.spec.init['run']} do not fit: {name} is {said[0]} there and {said[1]} here. "
                f"Give the agent the same network and normalize_observation, and an environment with the same spaces."
            )
