"""`check_env`: does an environment keep the contract? Run it on your own; it names the hook and says what to write.

Every registered environment is held to this by the test suite.
"""

from collections.abc import Callable
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal
from jaxtyping import Bool

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
from shoal.core.env import Env, State
from shoal.core.errors import CheckError
from shoal.core.keys import Key, make_key
from shoal.core.spaces import Discrete, Space, explain, misfit, random_action, zeros
from shoal.core.struct import static_fields, to_arrays


def check_env(env: Any, key: Key | None = None, steps: int = 64) -> None:
    """Check an environment against the contract of `Env`, by tracing its hooks and playing `steps` random actions.

    Checked: the value is a pytree with numbers for leaves; hooks accept traced constants, and states, rewards, flags,
    masks and infos have the right structure, shape and dtype; every observation lies in its space; rewards are finite;
    `time` counts; hooks are functions of what they are given; eager, `jit` and `vmap` agree; changing a constant does
    not recompile; a key that is given is used; a picture, where there is one, is uint8 [H, W, 3].

    Raises CheckError (an AssertionError) at the first rule that is broken. An error that a hook raises by itself passes
    through, with a note that names the hook.

        check_env(shoal.make("CartPole-v1"))
    """
    key = make_key(0) if key is None else key
    _check_value(env)
    _check_hooks(env, key)
    _check_repeatable(env, key)
    _check_play(env, key, steps)
    _check_keys_are_used(env, key)
    _check_picture(env, key)


# The value itself.


def _check_value(env: Any) -> None:
    if not isinstance(env, Env):
        raise CheckError(f"{env!r} is not an environment: derive its class from shoal's Env.")
    check_value(env)
    name = type(env).__name__
    for which in ("observation_space", "action_space"):
        space = getattr(env, which)
        if not isinstance(space, get_args(Space)):
            raise CheckError(f"{name}.{which} is {space!r}, not a space: return one of shoal.core.spaces.")


# What the hooks return, found by tracing.


def _check_hooks(env: Env, key: Key) -> None:
    env = to_arrays(env)
    _check_spaces(env)
    state = _trace(env, "init", lambda e: e.init(key))
    _check_state(env, state)
    noise = _trace(env, "noise", lambda e: e.noise(key))
    action = jax.eval_shape(env.action_space.sample, key)
    result = _trace(env, "transition", lambda e, *given: e.transition(*given), state, action, noise)
    _check_transition(env, state, result)
    reason = misfit(env.observation_space, _trace(env, "observe", lambda e, s: e.observe(s), state), "the observation")
    if reason:
        raise broken(env, "observe", f"disagrees with observation_space: {reason}")
    _check_mask(env, _trace(env, "action_mask", lambda e, s: e.action_mask(s), state))
    carried = _trace(env, "carry_over", lambda e, old, new: e.carry_over(old, new), state, state)
    check_same_structure(env, "carry_over", state, carried)


def _check_spaces(env: Env) -> None:
    """Bounds may widen while the constants they follow from are traced; kind, shape and dtype may not."""
    for which in ("observation_space", "action_space"):
        traced = _trace(env, which, lambda e, which=which: zeros(getattr(e, which)))
        if not same_shapes(traced, zeros(getattr(env, which))):
            raise broken(env, which, "has another shape when constants are traced; build shapes from static fields")


def _check_state(env: Env, state: Any) -> None:
    if not isinstance(state, State):
        raise broken(env, "init", f"gives a {type(state).__name__}; return a @struct class derived from State")
    check_scalar(env, "init", "time", state.time, jnp.int32, "start it as jnp.int32(0)")


def _check_transition(env: Env, state: State, result: Any) -> None:
    if not (isinstance(result, tuple) and len(result) == 4):
        raise broken(env, "transition", "must give four things: (state, reward, terminated, info)")
    after, reward, terminated, info = result
    check_same_structure(env, "transition", state, after)
    check_scalar(env, "transition", "reward", reward, jnp.float32, "write jnp.float32(...) or .astype(jnp.float32)")
    check_scalar(env, "transition", "terminated", terminated, jnp.bool_, "write a comparison or jnp.bool_(...)")
    if not isinstance(info, dict):
        raise broken(
            env, "transition", f"gives a {type(info).__name__} for info; return a dict, {{}} when there is none"
        )


def _check_mask(env: Env, mask: Any) -> None:
    if mask is None:
        return
    space = env.action_space
    expected = (space.n,) if isinstance(space, Discrete) else mask.shape
    if mask.dtype != jnp.bool_ or mask.shape != expected:
        raise broken(env, "action_mask", f"gives {mask.dtype}{list(mask.shape)}; return bool{list(expected)}")


def _trace(env: Env, hook: str, call: Callable[..., Any], *given: Any) -> Any:
    """What a hook would return, without computing it. Constants, state, action and noise are all traced."""
    with tracing("check_env", env, hook):
        return jax.eval_shape(call, env, *given)


# What the hooks compute.


def _check_repeatable(env: Env, key: Key) -> None:
    state = env.init(key)
    action, noise = jax.jit(env.action_space.sample)(key), env.noise(key)
    for hook, call in {
        "init": lambda: env.init(key),
        "noise": lambda: env.noise(key),
        "transition": lambda: env.transition(state, action, noise),
        "observe": lambda: env.observe(state),
    }.items():
        where = difference(call(), call(), exact=True)
        if where is not None:
            raise broken(
                env,
                hook,
                f"called twice with the same arguments gives two results (at {where or 'its value'}): draw from the "
                "key alone, keep everything that changes in the state",
            )


def _check_play(env: Env, key: Key, steps: int) -> None:
    traced = []

    def play(values: Env, key: Key) -> tuple[dict[str, Any], dict[str, Any]]:
        traced.append(values)
        obs, state = values.reset(key)
        first = {"obs": obs, "inside": env.observation_space.contains(obs)}
        return first, jax.lax.scan(lambda carry, _: _one_step(env, values, state, carry), (state, key), length=steps)[1]

    compiled = jax.jit(jax.vmap(play, (None, 0)))
    keys = jax.random.split(key, 2).at[0].set(key)
    first, seen = jax.tree.map(numbers, compiled(to_arrays(env), keys))
    compiled(to_arrays(_nudged(env)), keys)
    if len(traced) > 1:
        raise CheckError(
            f"{type(env).__name__} recompiles when a number in it changes: two values of the same settings must have "
            "equal static fields. Is one of them made anew each time, as a lambda in __post_init__ would be?"
        )
    for game in range(2):
        _check_first(env, jax.tree.map(lambda x, game=game: x[game], first))
        _check_seen(env, jax.tree.map(lambda x, game=game: x[game], seen))
    batched = jax.tree.map(lambda x: x[0, 0], seen["given"])
    # The program chose the action and split the key: eagerly, where every operation compiles by itself, only hooks run.
    words, action = jax.tree.map(lambda x: jnp.asarray(x[0, 0]), (seen["key"], seen["action"]))
    eager = _given(env, env.init(key), jax.random.wrap_key_data(words, impl=jax.random.key_impl(key)), action)
    if difference(eager, batched, exact=False) is not None:  # only then is it worth compiling, to say who is at odds
        alone = jax.tree.map(lambda x: x[0], jax.jit(play)(to_arrays(env), key)[1]["given"])
        _compare(env, "eager calls", eager, "jit", alone)
        _compare(env, "jit", alone, "vmap", batched)


def _one_step(
    spaces: Env, env: Env, fresh: State, carry: tuple[State, Key]
) -> tuple[tuple[State, Key], dict[str, Any]]:
    """Play one random action in `env`, whose constants may be traced, with the exact spaces of `spaces`."""
    state, key = carry
    key, k_act, k_step = jax.random.split(key, 3)
    action = random_action(spaces.action_space, env.action_mask(state), k_act)
    given = _given(env, state, k_step, action)
    after, mask = given["state"], given["mask"]
    seen = {
        "given": given,
        "key": jax.random.key_data(k_step),
        "action": action,
        "inside": spaces.observation_space.contains(given["obs"]),
        "allowed": jnp.bool_(True) if mask is None else mask.any(),
        "counted": after.time == state.time + 1,
    }
    following, is_over = env.carry_over(after, fresh), given["terminated"] | given["truncated"]
    state = jax.tree.map(lambda new, old: jnp.where(is_over, new, old), following, after)
    return (state, key), seen


def _given(env: Env, state: State, key: Key, action: Any) -> dict[str, Any]:
    """What the hooks give for one action."""
    obs, after, reward, terminated, truncated, info = env.step(key, state, action)
    return {
        "mask": env.action_mask(state),
        "obs": obs,
        "state": after,
        "reward": reward,
        "terminated": terminated,
        "truncated": truncated,
        "info": info,
    }


def _nudged(env: Env) -> Env:
    """The same settings built again, with the real numbers moved by a thousandth."""
    names = env.__dataclass_fields__.keys() - static_fields(env)  # type: ignore[attr-defined]  # a struct
    moved = {name: getattr(env, name) * 1.001 for name in names if isinstance(getattr(env, name), float)}
    try:
        return env.replace(**moved)
    except ValueError:  # out of a range that the environment checks
        return env.replace()


def _check_first(env: Env, first: dict[str, Any]) -> None:
    if not first["inside"]:
        reason = explain(env.observation_space, first["obs"], "the observation")
        raise broken(
            env, "observe", f"leaves observation_space at the start of an episode: {reason} {env.observation_space}"
        )


def _check_seen(env: Env, seen: dict[str, Any]) -> None:
    step = _first_failure(seen["inside"])
    if step is not None:
        obs = jax.tree.map(lambda x: x[step], seen["given"]["obs"])
        reason = explain(env.observation_space, obs, "the observation")
        raise broken(
            env, "observe", f"leaves observation_space after {step + 1} steps: {reason} {env.observation_space}"
        )
    reward = seen["given"]["reward"]
    step = _first_failure(np.isfinite(reward))
    if step is not None:
        raise broken(env, "transition", f"gives reward {reward[step]} after {step + 1} steps; it must be finite")
    step = _first_failure(seen["counted"])
    if step is not None:
        raise broken(env, "transition", "changes state.time; leave it alone, each step already counts itself there")
    step = _first_failure(seen["allowed"])
    if step is not None:
        raise broken(env, "action_mask", f"allows no action at all after {step} steps; allow at least one")


def _first_failure(fine: Bool[np.ndarray, "T"]) -> int | None:
    return None if fine.all() else int(np.argmin(fine))


def _compare(env: Env, left: str, left_seen: Any, right: str, right_seen: Any) -> None:
    where = difference(left_seen, right_seen, exact=False)
    if where is not None:
        raise CheckError(
            f"{type(env).__name__}: {left} and {right} disagree about the first step at {where}. A hook must not "
            "depend on how it is called: no NumPy randomness, no mutable attributes, no batched twin of its own."
        )


def _check_keys_are_used(env: Env, key: Key) -> None:
    for hook in ("init", "noise"):
        draw = getattr(env, hook)
        if not _makes_keys(jax.make_jaxpr(draw)(key).jaxpr):
            continue
        drawn = jax.vmap(draw)(jax.random.split(key, 16))
        if all((numbers(leaf) == numbers(leaf)[:1]).all() for leaf in jax.tree.leaves(drawn)):
            raise broken(
                env, hook, "makes a key of its own, and 16 different keys give it the same result: draw from `key`"
            )


def _makes_keys(jaxpr: Any) -> bool:
    """Whether a program turns a seed that is written into it into a key."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "random_seed" and isinstance(eqn.invars[0], Literal):
            return True
        inner = [getattr(value, "jaxpr", None) for value in eqn.params.values()]
        if any(_makes_keys(part) for part in inner if hasattr(part, "eqns")):
            return True
    return False


def _check_picture(env: Env, key: Key) -> None:
    try:
        picture = np.asarray(env.render(env.init(key)))
    except NotImplementedError:
        return
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[-1] != 3:
        raise broken(env, "render", f"gives {picture.dtype}{list(picture.shape)}; return uint8 [H, W, 3]")
