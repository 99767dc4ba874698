"""Write a trained policy for programs without shoal: a folder with `policy.py`, its weights and a README.

`portable` has the formats; here a policy becomes a function of arrays, and the texts and numbers become files.
"""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np

from shoal.core.errors import did_you_mean, need
from shoal.core.keys import make_key
from shoal.core.spaces import mask_size, zeros
from shoal.ops.statistics import bootstrap_interval
from shoal.portable.numpy_code import NUMPY
from shoal.portable.onnx_graph import onnx_model
from shoal.portable.policy_file import NEEDS, Interface, Part, policy_file, variables
from shoal.portable.program import Unportable, Value
from shoal.portable.python_code import python_code
from shoal.portable.torch_code import TORCH
from shoal.portable.tracing import program_of
from shoal.specs.disk import replace
from shoal.training.playing import evaluate
from shoal.training.policy import Policy, has_masks

FORMATS = tuple(NEEDS)
PLATFORMS = ("cpu", "cuda", "tpu")  # that a program of JAX runs on
SHORTENED = ("weights", "params")  # parts of the path of a weight that say nothing


def check_format(kind: str, half: bool) -> None:
    """Raise ValueError for an unknown format, and for half precision in one that has none."""
    if kind not in ("shoal", *FORMATS):
        near = did_you_mean(kind, FORMATS)
        raise ValueError(f"format={kind!r} is unknown.{near} Choose one of shoal, {', '.join(FORMATS)}.")
    if half and kind != "shoal":
        raise ValueError(f"half precision is for format='shoal': leave it out with format={kind!r}.")


def write_portable(policy: Policy, out: Path, kind: str, about: Mapping[str, str]) -> Path:
    """Write a policy in one of `FORMATS` to the folder `out`, with `about` (facts by name) in its README.

    Raises FileExistsError for a folder with files, ValueError for a part that the format cannot hold, which it names,
    and ImportError without the package that the format needs here.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} already holds something: choose another --out.")
    weights = _named_weights(policy)
    interface = _interface(policy, weights)
    act, inputs = _function(policy, interface, list(weights)), _inputs(interface)
    files, code = {}, None
    try:
        if kind == "jax":
            files["policy.jax"], weights = _exported(act, weights, inputs)
        elif kind == "onnx":
            program = program_of(act, weights, inputs, unroll=True)
            files["policy.onnx"] = onnx_model(program, _output_names(interface), about["trained"])
            weights = {value.name: np.asarray(value.data) for value in program.constants() if value.name}
        else:
            dialect = {"numpy": NUMPY, "torch": TORCH}[kind]
            code = python_code(program_of(act, weights, inputs), variables(interface), dialect)
            weights = code.constants
    except Unportable as error:
        raise ValueError(
            f"format={kind!r} cannot hold a part of this policy: {error}. format='jax' holds every part."
        ) from None
    if kind != "onnx":
        files["weights.npz"] = _npz(weights)
    files["policy.py"] = policy_file(kind, about["trained"], interface, code).encode()
    files["signature.json"] = json.dumps(_signature(interface), indent=1).encode() + b"\n"
    files["README.md"] = readme(kind, about, interface, weights).encode()  # last: a folder with it is complete
    out.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        replace(out / name, lambda path, content=content: path.write_bytes(content))
    return out


def readme(kind: str, about: Mapping[str, str], interface: Interface, weights: Mapping[str, np.ndarray]) -> str:
    """The README of a policy, its model card: `about` in a table, then what it reads and returns, and its weights."""
    rows = "".join(f"| {name} | {text} |\n" for name, text in about.items() if text)
    places = ["".join(f"[{place!r}]" for place in part.path) for part in interface.observation]
    arrays = [(f"observation{at}", part.value) for at, part in zip(places, interface.observation, strict=True)]
    if interface.mask:
        arrays.append(("mask, of the allowed actions", interface.mask))
    arrays.append(("action, returned", interface.action))
    read = "".join(f"| {name} | {value.dtype} | {list(value.shape)} |\n" for name, value in arrays)
    total = sum(x.size for x in weights.values())
    layers = "".join(f"| {name} | {x.dtype} | {list(x.shape)} | {x.size:,} |\n" for name, x in weights.items())
    table = f"\n| array | dtype | shape | numbers |\n|---|---|---|---:|\n{layers}| all | | | {total:,} |\n"
    mask = ", mask" if interface.mask else ""
    kept = "It remembers earlier steps: call `reset()` where an episode begins.\n\n" if interface.carry else ""
    return f"""# {about["trained"].partition(",")[0]}

|   |   |
|---|---|
{rows}
## Use

`policy.py` needs {NEEDS[kind]}; shoal is not needed.

```python
from policy import Policy

policy = Policy()
policy.reset()
action = policy(observation{mask})  # one observation at a time; always the best action
```

{kept}| array | dtype | shape |
|---|---|---|
{read}{table}"""


def return_in_words(policy: Policy, max_steps: int, episodes: int = 100) -> str:
    """The mean return of a policy in fresh episodes, with its 95 % bootstrap interval."""
    returns = np.asarray(evaluate(policy, episodes=episodes, max_steps=max_steps).episode_return, float)
    if not np.isfinite(returns).all():
        return f"not finite in {(~np.isfinite(returns)).sum()} of {episodes} episodes"
    low, high = bootstrap_interval(returns, np.mean)
    spread = f"95 % interval {low:.5g} to {high:.5g}"
    return f"{returns.mean():.5g} on average of {episodes} fresh episodes with the best actions ({spread})"


def _named_weights(policy: Policy) -> dict[str, np.ndarray]:
    """The arrays of a policy by their paths, without the parts of a path that say nothing."""
    leaves = jax.tree_util.tree_flatten_with_path(policy.weights)[0]
    paths = [[_place(step) for step in path] for path, _ in leaves]
    short = ["/".join(str(place) for place in path if place not in SHORTENED) for path in paths]
    whole = ["/".join(map(str, path)) for path in paths]
    names = short if len({*short}) == len(short) and all(short) else whole
    return {name: np.asarray(leaf) for name, (_, leaf) in zip(names, leaves, strict=True)}


def _place(step: Any) -> Any:
    """The key, the name or the number in one step of a path in a tree."""
    return next(getattr(step, name) for name in ("key", "name", "idx") if hasattr(step, name))


def _interface(policy: Policy, weights: Mapping[str, np.ndarray]) -> Interface:
    space, env = policy.env.observation_space, policy.env
    parts = jax.tree_util.tree_flatten_with_path(zeros(space))[0]
    observation = []
    for path, x in parts:
        places = tuple(_place(step) for step in path)
        observation.append(Part(places, _value(x, ".".join(map(str, ("observation", *places))))))
    memory = jax.tree.leaves(policy.actor.initial_carry())
    if any(np.any(np.asarray(x)) for x in memory):
        raise ValueError("this policy cannot be exported to another format: its memory does not begin with zeros.")
    carry = tuple(_value(x, f"carry.{i}") for i, x in enumerate(memory))
    mask = Value((mask_size(env.action_space),), np.dtype(bool), "mask") if has_masks(env) else None
    interface = Interface(tuple(observation), carry, mask, Value((), np.dtype(np.int32), "action"))
    act = _function(policy, interface, list(weights))
    action = jax.eval_shape(act, dict(weights), {name: x for name, x in _inputs(interface).items()})[0]
    return interface._replace(action=_value(action, "action"))


def _value(x: Any, name: str) -> Value:
    return Value(tuple(x.shape), np.dtype(x.dtype), name)


def _inputs(interface: Interface) -> dict[str, jax.ShapeDtypeStruct]:
    values = [part.value for part in interface.observation] + [*interface.carry]
    values += [interface.mask] if interface.mask else []
    return {value.name: jax.ShapeDtypeStruct(value.shape, value.dtype) for value in values}


def _output_names(interface: Interface) -> list[str]:
    return ["action", *(f"next_{value.name}" for value in interface.carry)]


def _function(policy: Policy, interface: Interface, names: list[str]) -> Any:
    """The best action as a function (weights by name, inputs by name) -> [action, arrays of the next carry]."""
    weights_tree = jax.tree.structure(policy.weights)
    obs_tree = jax.tree.structure(zeros(policy.env.observation_space))
    carry_tree = jax.tree.structure(policy.actor.initial_carry())

    def act(weights: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[Any]:
        obs = jax.tree.unflatten(obs_tree, [inputs[part.value.name] for part in interface.observation])
        carry = jax.tree.unflatten(carry_tree, [inputs[value.name] for value in interface.carry])
        learned = jax.tree.unflatten(weights_tree, [weights[name] for name in names])
        key = make_key(0)  # as in `Policy.__call__`: the best action does not depend on it
        action, carry = policy.actor.act(learned, obs, carry, key, True, inputs.get("mask"))
        return [action, *jax.tree.leaves(carry)]

    return act


def _npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    whole = {name: np.asarray(x, order="C") for name, x in arrays.items()}  # a number stays without axes
    np.savez_compressed(file, **whole)  # type: ignore[arg-type]  # by name
    return file.getvalue()


def _exported(act: Any, weights: Mapping[str, np.ndarray], inputs: Mapping[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """(the best action as a serialized program of `jax.export`, the weights that it takes beside a list of inputs)."""
    need("flatbuffers", "export", "format='jax'")

    def program_of_weights(read: Mapping[str, np.ndarray]) -> Any:
        program = jax.jit(lambda w, arrays: act({**weights, **w}, dict(zip(inputs, arrays, strict=True))))
        return jax.export.export(program, platforms=PLATFORMS)(dict(read), list(inputs.values()))

    kept = program_of_weights(weights).module_kept_var_idx
    read = {name: weights[name] for i, name in enumerate(sorted(weights)) if i in kept}
    return bytes(program_of_weights(read).serialize()), read


def _signature(interface: Interface) -> dict[str, Any]:
    def described(name: str, value: Any) -> dict[str, Any]:
        return {"name": name, "dtype": str(np.dtype(value.dtype)), "shape": list(value.shape)}

    inputs = [described(name, x) for name, x in _inputs(interface).items()]
    results = [interface.action, *interface.carry]
    outputs = [described(name, x) for name, x in zip(_output_names(interface), results, strict=True)]
    return {"inputs": inputs, "outputs": outputs}
