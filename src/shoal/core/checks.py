"""`check_env` checks whether an environment keeps the rules of `Env`. Its errors name the hook and say what to write.

The test suite runs it on every registered environment.
"""

import inspect
from collections.abc import Callable
from types import MethodType
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
from shoal.core.foreign import gymnasium_name
from shoal.core.host_checks import check_host_env
from shoal.core.host_env import HostEnv
from shoal.core.keys import Key, make_key
from shoal.core.kinds import checked_kinds
from shoal.core.process import check_process
from shoal.core.spaces import Space, explain, flat_size, mask_size, misfit, permits, random_action, zeros
from shoal.core.struct import static_fields, to_arrays
from shoal.core.user_code import global_random_states, line_of, line_that_samples


@checked_kinds()
def check_env(env: Any, key: Key | None = None, steps: int = 64) -> int:
    """Check an environment against the rules of `Env`: trace its hooks, then take random actions.

    Two games of `steps` steps are played. Returns the number of episodes that ended in them: where it is 0, no final
    observation was checked.

    The rules: the environment is a pytree whose leaves are numbers; hooks accept traced constants; states, rewards,
    flags, masks and infos have the right structure, shape and dtype; every observation is in the observation space;
    rewards are finite; `time` counts steps; hooks give equal results for equal arguments; eager calls, `jit` and `vmap`
    agree; changing a constant does not recompile; hooks use the keys that they get, each once; a picture is uint8
    [H, W, 3]. Those of an environment that Python steps are in `core/host_checks.py`.

    Raises CheckError (an AssertionError) for the first rule that is broken, or for an error inside a hook, which is its
    cause. The message begins with the file and line if the class is your own. `shoal check` calls this function.

        check_env(shoal.make("CartPole-v1"))
    """
    check_process()
    key = make_key(0) if key is None else key
    if isinstance(env, HostEnv):
        return check_host_env(env, key, steps)
    _check_value(env)
    _check_hooks(env, key)
    _check_repeatable(env, key)
    episodes = _check_play(env, key, steps)
    _check_keys_are_used(env, key)
    _check_picture(env, key)
    return episodes


# The environment as a pytree.


def _check_value(env: Any) -> None:
    if not isinstance(env, Env):
        named = f"give the value, shoal.make({env!r})" if isinstance(env, str) else gymnasium_name(env)
        instead = named or "derive its class from shoal's Env"
        raise CheckError(f"{env!r} is not an environment: {instead}.")
    check_value(env)
    _check_untyped(env)
    for which in ("observation_space", "action_space"):
        with tracing(env, which):
            space = getattr(env, which)
        if isinstance(space, MethodType):
            raise broken(env, which, "is a method, not a property: write @property above it")
        if not isinstance(space, get_args(Space)):
            raise broken(env, which, f"is {space!r}, not a space: return a Box, Discrete or another space of shoal")
        if not flat_size(space):
            raise broken(env, which, f"is {space}, which holds no number: an agent needs at least one, such as a 0")


def _check_untyped(env: Env) -> None:
    """Raise CheckError for `wind = 0.1` without a type in the class body: it looks like a field, and is none."""
    own = [cls for cls in type(env).__mro__ if issubclass(cls, Env) and cls is not Env]
    typed = {name for cls in type(env).__mro__ for name in inspect.get_annotations(cls)}
    for cls in own:
        for name, content in cls.__dict__.items():
            is_constant = name.startswith("_") or name.isupper()  # by convention
            if is_constant or name in typed or not isinstance(content, (bool, int, float, str, tuple, np.generic)):
                continue
            is_number = isinstance(content, (int, float, np.generic)) and not isinstance(content, bool)
            field = f"{name}: Number = {content!r}" if is_number else f"{name}: {type(content).__name__} = static(...)"
            raise broken(
                env,
                name,
                f"has no type, so it is no field and cannot be set or swept: write `{field}`, or "
                f"`{name}: ClassVar = {content!r}` for what never changes",
            )


# Structures, shapes and dtypes of what the hooks return, found by tracing.


def _check_hooks(env: Env, key: Key) -> None:
    env = to_arrays(env)
    _check_spaces(env)
    state = _trace(env, "init", lambda e, k: e.init(k), key)
    _check_state(env, state)
    noise = _trace(env, "noise", lambda e, k: e.noise(k), key)
    action = jax.eval_shape(env.action_space.sample, key)
    result = _trace(env, "transition", lambda e, *arguments: e.transition(*arguments), state, action, noise)
    _check_transition(env, state, result)
    reason = misfit(env.observation_space, _trace(env, "observe", lambda e, s: e.observe(s), state), "the observation")
    if reason:
        raise broken(env, "observe", f"disagrees with observation_space: {reason}")
    _check_mask(env, _trace(env, "action_mask", lambda e, s: e.action_mask(s), state))
    carried = _trace(env, "carry_over", lambda e, old, new: e.carry_over(old, new), state, state)
    check_same_structure(env, "carry_over", state, carried)


def _check_spaces(env: Env) -> None:
    """Check that a space keeps its kind, shape and dtype when constants are traced; only its bounds may change then."""
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
        given = f"{len(result)} things" if isinstance(result, tuple) else f"a {type(result).__name__}"
        raise broken(env, "transition", f"must give four things: (state, reward, terminated, info); it gives {given}")
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
    if not (size := mask_size(env.action_space)):
        raise broken(env, "action_mask", f"gives a mask, but actions of {env.action_space} have none; return None")
    if getattr(mask, "dtype", None) != jnp.bool_ or mask.shape != (size,):
        given = f"{mask.dtype}{list(mask.shape)}" if hasattr(mask, "dtype") else f"a {type(mask).__name__}"
        raise broken(env, "action_mask", f"gives {given}; return bool[{size}], for {env.action_space}")


def _trace(env: Env, hook: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Return the shapes and dtypes of a hook's result. Constants, keys, state, action and noise are all traced.

    Raises CheckError for errors in the hook, and where it uses the random numbers of Python or NumPy.
    """
    before = global_random_states()
    with jax.debug_key_reuse(True), tracing(env, hook):
        result = jax.jit(call).trace(env, *arguments).out_info
    after = global_random_states()
    if after != before:
        at = line_that_samples(lambda: jax.make_jaxpr(lambda *given: call(*given))(env, *arguments))
        if at or after[1] != before[1]:  # otherwise a type checker, which samples what it checks, did that
            raise broken(
                env,
                hook,
                "uses random numbers of Python or NumPy. A hook is traced once, so they would be the same in every "
                "step: use jax.random, with the key that `init` and `noise` get",
                at,
            )
    return result


# Values that the hooks return.


def _check_repeatable(env: Env, key: Key) -> None:
    with tracing(env, "init"):
        state = env.init(key)
    with tracing(env, "noise"):
        noise = env.noise(key)
    action = jax.jit(env.action_space.sample)(key)
    for hook, call in {
        "init": lambda: env.init(key),
        "noise": lambda: env.noise(key),
        "transition": lambda: env.transition(state, action, noise),
        "observe": lambda: env.observe(state),
    }.items():
        with tracing(env, hook):
            where = difference(call(), call(), exact=True)
        if where is not None:
            raise broken(
                env,
                hook,
                f"called twice with the same arguments gives two results (at {where or 'its value'}): take random "
                "numbers from the key only, and keep everything that changes in the state",
            )


def _check_play(env: Env, key: Key, steps: int) -> int:
    traces = []

    def play(traced_env: Env, key: Key) -> tuple[dict[str, Any], dict[str, Any]]:
        traces.append(traced_env)
        obs, state = traced_env.reset(key)
        first = {"obs": obs, "inside": env.observation_space.contains(obs)}
        return first, jax.lax.scan(
            lambda carry, _: _one_step(env, traced_env, state, carry), (state, key), length=steps
        )[1]

    compiled = jax.jit(jax.vmap(play, (None, 0)))
    keys = jax.random.split(key, 2).at[0].set(key)
    first, steps_taken = jax.tree.map(numbers, compiled(to_arrays(env), keys))
    compiled(to_arrays(_with_other_constants(env)), keys)
    if len(traces) > 1:
        raise CheckError(
            f"{type(env).__name__} recompiles when one of its constants changes: two environments that were built with "
            "the same static fields must have equal ones. A lambda that is made in __post_init__, for example, is "
            "another function each time.",
            line_of(type(env), "__post_init__"),
        )
    for game in range(2):
        _check_first(env, jax.tree.map(lambda x, game=game: x[game], first))
        _check_steps(env, jax.tree.map(lambda x, game=game: x[game], steps_taken))
    batched = jax.tree.map(lambda x: x[0, 0], steps_taken["results"])
    # The compiled program chose the action and split the key. Eagerly, where every operation compiles by itself, only
    # the hooks run.
    words, action = jax.tree.map(lambda x: jnp.asarray(x[0, 0]), (steps_taken["key"], steps_taken["action"]))
    eager = _results(env, env.init(key), jax.random.wrap_key_data(words, impl=jax.random.key_impl(key)), action)
    if difference(eager, batched, exact=False) is not None:  # compile once more only to say which two disagree
        alone = jax.tree.map(lambda x: x[0], jax.jit(play)(to_arrays(env), key)[1]["results"])
        _compare(env, "eager calls", eager, "jit", alone)
        _compare(env, "jit", alone, "vmap", batched)
    results = steps_taken["results"]
    return int((results["terminated"] | results["truncated"]).sum())


def _one_step(
    spaces: Env, env: Env, fresh: State, carry: tuple[State, Key]
) -> tuple[tuple[State, Key], dict[str, Any]]:
    """Take one step with a random action. Returns ((state, key), what `_check_steps` checks of the step).

    `env` may have traced constants. `spaces` is the same environment with known constants, for the bounds of its
    spaces. `fresh` is the state from which an episode begins after another one ended.
    """
    state, key = carry
    key, k_act, k_step = jax.random.split(key, 3)
    action = random_action(spaces.action_space, env.action_mask(state), k_act)
    results = _results(env, state, k_step, action)
    after, mask = results["state"], results["mask"]
    record = {
        "results": results,
        "key": jax.random.key_data(k_step),
        "action": action,
        "inside": spaces.observation_space.contains(results["obs"]),
        "allowed": jnp.bool_(True) if mask is None else permits(spaces.action_space, mask),
        "counted": after.time == state.time + 1,
    }
    following, is_over = env.carry_over(after, fresh), results["terminated"] | results["truncated"]
    state = jax.tree.map(lambda new, old: jnp.where(is_over, new, old), following, after)
    return (state, key), record


def _results(env: Env, state: State, key: Key, action: Any) -> dict[str, Any]:
    """The results of the hooks for one action."""
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


def _with_other_constants(env: Env) -> Env:
    """Return the environment built again, with all floats multiplied by 1.001."""
    names = env.__dataclass_fields__.keys() - static_fields(env)  # type: ignore[attr-defined]  # a struct
    changed = {name: getattr(env, name) * 1.001 for name in names if isinstance(getattr(env, name), float)}
    try:
        return env.replace(**changed)
    except ValueError:  # a changed float is outside a range that the environment checks
        return env.replace()


def _check_first(env: Env, first: dict[str, Any]) -> None:
    if not first["inside"]:
        reason = explain(env.observation_space, first["obs"], "the observation")
        raise broken(
            env, "observe", f"leaves observation_space at the start of an episode: {reason} {env.observation_space}"
        )


def _check_steps(env: Env, steps: dict[str, Any]) -> None:
    step = _first_failure(steps["inside"])
    if step is not None:
        obs = jax.tree.map(lambda x: x[step], steps["results"]["obs"])
        reason = explain(env.observation_space, obs, "the observation")
        raise broken(
            env, "observe", f"leaves observation_space after {step + 1} steps: {reason} {env.observation_space}"
        )
    reward = steps["results"]["reward"]
    step = _first_failure(np.isfinite(reward))
    if step is not None:
        raise broken(env, "transition", f"gives reward {reward[step]} after {step + 1} steps; it must be finite")
    step = _first_failure(steps["counted"])
    if step is not None:
        raise broken(env, "transition", "changes state.time; do not change it, `advance` already counts the step")
    step = _first_failure(steps["allowed"])
    if step is not None:
        raise broken(env, "action_mask", f"allows no action at all after {step} steps; allow at least one")


def _first_failure(passed: Bool[np.ndarray, "T"]) -> int | None:
    return None if passed.all() else int(np.argmin(passed))


def _compare(env: Env, left: str, left_record: Any, right: str, right_record: Any) -> None:
    where = difference(left_record, right_record, exact=False)
    if where is not None:
        raise CheckError(
            f"{type(env).__name__}: {left} and {right} disagree about the first step at {where}. A hook must not "
            "depend on how it is called: no random numbers of NumPy, no attributes that change, and a batched version "
            "(jax.custom_batching) must compute the same.",
            line_of(type(env)),
        )


def _check_keys_are_used(env: Env, key: Key) -> None:
    for hook in ("init", "noise"):
        sample = getattr(env, hook)
        if not _makes_keys(jax.make_jaxpr(sample)(key).jaxpr):
            continue
        samples = jax.vmap(sample)(jax.random.split(key, 16))
        if all((numbers(leaf) == numbers(leaf)[:1]).all() for leaf in jax.tree.leaves(samples)):
            raise broken(
                env,
                hook,
                "makes a key of its own, and 16 different keys give it the same result: sample with the argument `key`",
            )
    state, noise = jax.eval_shape(env.init, key), jax.eval_shape(env.noise, key)
    action = jax.eval_shape(env.action_space.sample, key)
    if _makes_keys(jax.make_jaxpr(env.transition)(state, action, noise).jaxpr):
        raise broken(
            env,
            "transition",
            "makes a key of its own, so its random numbers are the same in every step: sample them in `noise(self, "
            "key)`, whose result is the argument `noise`",
        )


def _makes_keys(jaxpr: Any) -> bool:
    """Return whether a program makes a random key from a seed that is a constant in the program."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "random_seed" and isinstance(eqn.invars[0], Literal):
            return True
        inner = [getattr(value, "jaxpr", None) for value in eqn.params.values()]
        if any(_makes_keys(part) for part in inner if hasattr(part, "eqns")):
            return True
    return False


def _check_picture(env: Env, key: Key) -> None:
    try:
        with tracing(env, "render"):
            picture = np.asarray(env.render(env.init(key)))
    except CheckError as error:
        if isinstance(error.__cause__, NotImplementedError):
            return
        raise
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[-1] != 3:
        raise broken(env, "render", f"gives {picture.dtype}{list(picture.shape)}; return uint8 [H, W, 3]")
