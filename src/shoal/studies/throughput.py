"""How fast environments step here. Every registered environment is measured by being registered."""

import contextlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from shoal.core.env import Env, Key
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, ENVS, ranges
from shoal.core.spaces import Box, Discrete, Space
from shoal.rollouts.rollout import Rollout
from shoal.training.host import usable_cores
from shoal.training.placement import Placement, make_placement

POLICIES = ("random", "mlp")
HORIZON = 100  # steps between refills of the bank
FEWEST_A_CORE = 64  # environments; fewer are not worth a thread of their own


class Throughput(NamedTuple):
    """One measurement: environment steps a second, every observation produced and folded into a checksum."""

    env: str
    num_envs: int
    policy: str
    steps_per_second: float
    compile_seconds: float
    resets_reused: int
    checksum: float


class Stepper(NamedTuple):
    """A program to time: `carry, written = run(*carry)`. The carry is (env_states, checksum, key, resets_reused)."""

    run: Callable[..., tuple[tuple, Any]]
    carry: tuple
    steps: int  # of all environments together, in one call
    bank_size: int


def throughput(
    names: Sequence[str] = (), *, policy: str = "random", sizes: Sequence[int] = (), seconds: float = 0.5
) -> Iterator[Throughput]:
    """Measure environments at several numbers of parallel environments: by default all that are registered.

        for row in shoal.throughput(["CartPole-v1"], sizes=[256], seconds=0.1):
            print(row.env, row.num_envs, row.steps_per_second)

    Of ids that differ only in a final number, as bsuite's do, that is the first; and none whose files are missing. Each
    measurement runs for about `seconds`, with random actions or (`policy="mlp"`) those of PPO's default network. Raises
    ValueError for an unknown name or policy.
    """
    if policy not in POLICIES:
        raise ValueError(f"policy={policy!r} is unknown. Choose one of: {', '.join(POLICIES)}.")
    entries = [ENVS[name] for name in names or measurable()]
    for entry in entries:
        for num_envs in sizes or default_sizes():
            yield measure(entry.name, entry.build(), num_envs, policy, seconds)


def measurable() -> list[str]:
    """One name of each range of ids, unless its environment cannot start here because a file is missing."""
    found = []
    for members in ranges(ENVS).values():
        env = ENVS[members[0]].build()
        with contextlib.suppress(ValueError):
            jax.eval_shape(env.init, make_key(0))
            found.append(members[0])
    return found


def default_sizes() -> list[int]:
    """Powers of four: up to 16,384 environments on a CPU, 2^20 elsewhere."""
    return [4**k for k in range(8 if jax.default_backend() == "cpu" else 11)]


def measure(name: str, env: Env, num_envs: int, policy: str, seconds: float) -> Throughput:
    """Compile once, run once unmeasured, then for as long as asked; the rate is that of the median call."""
    begin = time.perf_counter()
    fleet = make_fleet(env, num_envs, policy=policy)
    compile_seconds = time.perf_counter() - begin
    fleet.advance()
    took: list[float] = []
    while len(took) < 3 or sum(took) < seconds:
        begin = time.perf_counter()
        fleet.advance()
        took.append(time.perf_counter() - begin)
    rate = fleet.steps / sorted(took)[len(took) // 2]
    return Throughput(name, num_envs, policy, rate, compile_seconds, fleet.resets_reused, fleet.checksum)


class Fleet:
    """The same compiled stepper on every core, each with a part of the environments (`training/placement.py`)."""

    def __init__(self, program: Any, carries: list[tuple], placement: Placement, stepper: Stepper) -> None:
        """Made by `make_fleet`."""
        self._program, self._placement, self._carries = program, placement, carries
        self.steps = stepper.steps * len(carries)  # of one `advance`
        self.bank_size = stepper.bank_size

    def advance(self) -> None:
        """Step every environment through all rounds."""
        done = self._placement.call(self._program, [list(column) for column in zip(*self._carries, strict=True)])
        self._carries = [carry for carry, _ in done]

    @property
    def resets_reused(self) -> int:
        """Resets that took a state of the bank for the second time; a comparison needs it to be 0."""
        return sum(int(carry[3]) for carry in self._carries)

    @property
    def checksum(self) -> float:
        """All observations so far, added up."""
        return sum(total(carry[1]) for carry in self._carries)


def make_fleet(env: Env, num_envs: int, **how: Any) -> Fleet:
    """A fleet of `num_envs` environments, compiled. `how` goes to `make_stepper`."""
    cores = usable_cores() if jax.default_backend() == "cpu" else 1
    shares = cores if num_envs >= FEWEST_A_CORE * cores and num_envs % cores == 0 else 1
    steppers = [make_stepper(env, num_envs // shares, seed=i, **how) for i in range(shares)]
    placement = make_placement(shares, block=1)
    program = jax.jit(steppers[0].run).lower(*steppers[0].carry).compile(placement.compiler_options)
    return Fleet(program, [stepper.carry for stepper in steppers], placement, steppers[0])


def make_stepper(
    env: Env,
    num_envs: int,
    *,
    policy: str = "random",
    rounds: int = 1,
    bank_size: int = 0,
    trajectory: bool = False,
    envs_last: bool = False,
    prng: str = "mix32",
    seed: int = 0,
) -> Stepper:
    """A program that steps `num_envs` environments for `rounds` horizons, refilling the reset bank before each.

    Observations are added up in the carry, each in its own dtype (whole numbers wrap around), or written out with the
    rest of the trajectory (`trajectory=True`). `envs_last` keeps the sums with the environments as the last axis.
    """
    rollout = Rollout.for_env(env, num_envs, HORIZON, bank_size=bank_size)
    draw, act = _random(env.action_space) if policy == "random" else _mlp(env, num_envs)

    def folded(obs: Any) -> Any:
        obs = jax.tree.map(lambda x: x.astype(jnp.uint8) if x.dtype == jnp.bool_ else x, obs)
        return jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), obs) if envs_last else obs

    def follow(obs: Any, mask: Any, noise: Any, checksum: Any) -> tuple[Any, None, Any]:
        return act(obs, mask, noise), None, checksum if trajectory else jax.tree.map(jnp.add, checksum, folded(obs))

    def collect(carry: tuple, _: None) -> tuple[tuple, Any]:
        env_states, checksum, key, reused = carry
        key, k_act, k_env = jax.random.split(key, 3)
        noise = draw(k_act, (HORIZON, num_envs))
        env_states, seen, checksum = rollout.collect(env, env_states, follow, noise, k_env, checksum)
        written = (seen.obs, seen.action, seen.reward, seen.terminated, seen.truncated) if trajectory else None
        return (env_states, checksum, key, reused + seen.episodes().resets_reused), written

    def run(*carry: Any) -> tuple[tuple, Any]:
        return jax.lax.scan(collect, carry, None, rounds)

    k_env, k_run = jax.random.split(make_key(seed, prng))
    env_states = rollout.init(env, k_env)
    obs = jax.eval_shape(lambda state: folded(jax.vmap(env.observe)(state)), env_states.state)
    checksum = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), obs)
    carry = (env_states, checksum, k_run, jnp.int32(0))
    return Stepper(run, carry, rounds * HORIZON * num_envs, rollout.bank_size)


def total(checksum: Any) -> float:
    """The folded observations as one number."""
    return sum(float(x.sum()) for x in jax.tree.leaves(checksum))


def report(rows: Sequence[Throughput], path: Path) -> None:
    """Write measurements as JSON, with the machine they hold for."""
    device = jax.devices()[0]
    machine = {
        "device": getattr(device, "device_kind", device.platform),
        "devices": jax.device_count(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "load_average": os.getloadavg(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "rows": [row._asdict() for row in rows]}, indent=1) + "\n")


Draw = Callable[[Key, tuple[int, int]], Any]
Act = Callable[[Any, Any, Any], Any]


def _random(space: Space) -> tuple[Draw, Act]:
    def draw(key: Key, shape: tuple[int, int]) -> Any:
        if isinstance(space, Discrete):
            return jax.random.randint(key, shape, 0, space.n, space.dtype)
        if isinstance(space, Box):
            low, high = space.bounds()
            return jax.random.uniform(key, (*shape, *space.shape), minval=low, maxval=high)
        return jax.vmap(jax.vmap(space.sample))(jax.random.split(key, shape))

    return draw, lambda obs, mask, noise: noise


def _mlp(env: Env, num_envs: int) -> tuple[Draw, Act]:
    # PPO's default policy with fresh weights, sampled.
    agent = AGENTS["ppo"].build(num_envs=num_envs).bind(env)
    policy = agent.policy_state(agent.init(make_key(1), env))

    def act(obs: Any, mask: Any, keys: Key) -> Any:
        one = jax.vmap(lambda o, m, k: agent.act(policy, o, None, k, False, m)[0])
        return one(obs, mask, keys)

    return jax.random.split, act
