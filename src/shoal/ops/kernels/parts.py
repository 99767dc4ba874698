"""Divide the gradient of a loss into parts that share no weights, such as those of an actor and of a critic.

Each part is computed by a kernel of its own: its code is shorter, and its registers hold the gradient of fewer weights.
Losses that depend on more than one part must be sums: their means over the minibatch are computed from the means of the
parts.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from shoal.ops.kernels.flat import CannotLower, Program, Step, Value, evaluate, needed

ROWS = -1  # stands for the minibatch among the weights that a value depends on


class Part(NamedTuple):
    """Weights, by their positions among the inputs, and what is computed from them alone."""

    leaves: tuple[int, ...]
    gradient: tuple[Value, ...]
    means: tuple[Value, ...]  # scalars
    steps: list[Step]


def apart(program: Program, num_weights: int) -> list[Part]:
    """The parts of a program whose first inputs are the weights, and whose first outputs are their gradient."""
    depends = _dependencies(program, num_weights)
    groups = _groups(program, num_weights, depends)
    losses = program.outputs[num_weights:]
    mixed = needed(program.steps, [x for x in losses if _is_mixed(depends, groups, x)])
    mixed = [step for step in mixed if any(_is_mixed(depends, groups, x) for x in step.outputs)]
    for step in mixed:
        _check_sum(step, depends)
    inputs = [x for step in mixed for x in step.inputs]
    scalars = [x for x in dict.fromkeys([*losses, *inputs]) if depends.get(x) and not _is_mixed(depends, groups, x)]
    parts = []
    for group in groups:
        gradient = tuple(program.outputs[i] for i in group)
        means = tuple(x for x in scalars if _group_of(groups, depends[x]) is group)
        parts.append(Part(group, gradient, means, needed(program.steps, (*gradient, *means))))
    return parts


def total_losses(program: Program, num_weights: int, means: dict[Value, Any]) -> list[Any]:
    """The losses among the outputs, from the means that the parts computed."""
    losses = program.outputs[num_weights:]
    found = evaluate(program.steps, {**dict(program.constants), **means}, losses)
    return [found[x] for x in losses]


def _dependencies(program: Program, num_weights: int) -> dict[Value, frozenset[int]]:
    # The weights, and ROWS, from which a value is computed.
    depends = {x: frozenset([i if i < num_weights else ROWS]) for i, x in enumerate(program.inputs)}
    for step in program.steps:
        found = frozenset().union(*(depends.get(x, ()) for x in step.inputs))
        depends.update(dict.fromkeys(step.outputs, found))
    return depends


def _groups(program: Program, num_weights: int, depends: dict[Value, frozenset[int]]) -> list[tuple[int, ...]]:
    # Weights that meet in an array belong together. Those that meet in scalars only are in a sum of losses.
    groups = [{i} for i in range(num_weights)]
    meetings = [depends[x] for step in program.steps for x in step.outputs if x.shape]
    meetings += [depends.get(x, frozenset()) | {i} for i, x in enumerate(program.outputs[:num_weights])]
    for meeting in meetings:
        joined = [group for group in groups if group & meeting]
        if len(joined) > 1:
            groups = [group for group in groups if not group & meeting] + [set().union(*joined)]
    return [tuple(sorted(group)) for group in sorted(groups, key=min)]


def _group_of(groups: Sequence[tuple[int, ...]], depends: frozenset[int]) -> tuple[int, ...] | None:
    # The group of all these weights; the first for what depends on the minibatch only; None for several groups.
    found = [group for group in groups if depends & set(group)]
    return None if len(found) > 1 else [*found, groups[0]][0]


def _is_mixed(depends: dict[Value, frozenset[int]], groups: Sequence[tuple[int, ...]], value: Value) -> bool:
    return _group_of(groups, depends.get(value, frozenset())) is None


def _check_sum(step: Step, depends: dict[Value, frozenset[int]]) -> None:
    # The mean over the minibatch of a sum is the sum of means; this is not so for other functions of several parts.
    varying = [bool(depends.get(x)) for x in step.inputs]
    name = step.primitive.name
    is_sum = name in ("add", "add_any", "sub", "neg", "convert_element_type", "copy", "stop_gradient")
    is_multiple = (name == "mul" and sum(varying) == 1) or (name == "div" and not varying[1])
    if not (is_sum or is_multiple):
        raise CannotLower(f"a loss is not a sum of losses with separate weights: the operation {name} joins them")
