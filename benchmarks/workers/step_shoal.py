"""Steps of a shoal environment with random actions and automatic resets from the bank, in one compiled scan.

The same work as `step_gymnax.py`: every observation is added to a checksum that is returned, or all are written
(`--trajectory`). The measured time includes sampling the actions and the reset bank. `resets_reused` counts resets that
reused a state of the bank; it must be 0 in a comparison. With `--envs-last` the environments are the last axis of the
checksum, which avoids a transposition of images that only the checksum would need.
"""

import argparse
import json

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--fields", type=json.loads, default={}, help='of the environment, such as {"size": 8}')
parser.add_argument("--envs", type=int, default=2048)
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--bank", type=int, default=0, help="first states per environment and rollout; 0: shoal's choice")
parser.add_argument("--random", default="mix32", choices=("mix32", "threefry2x32"))
parser.add_argument("--repeats", type=int, default=5)
parser.add_argument("--trajectory", action="store_true")
parser.add_argument("--envs-last", action="store_true")
parser.add_argument("--compile-phases", action="store_true", help="also compile vmapped reset and step by themselves")
args = parser.parse_args()

import time  # noqa: E402

from shoal.training.host import STEPPING_LOOP, prepare  # noqa: E402

prepare(cache=False, small_loop=STEPPING_LOOP)

import jax  # noqa: E402

from shoal.core.keys import make_key  # noqa: E402
from shoal.core.registry import ENVS  # noqa: E402
from shoal.studies.throughput import HORIZON, make_fleet  # noqa: E402

env = ENVS[args.env].build(**args.fields)
phases = {}
if args.compile_phases:
    keys = jax.random.split(make_key(0, args.random), args.envs)
    reset, phases["reset"] = measure.compile_phases(jax.vmap(env.reset), keys)
    actions = jax.vmap(env.action_space.sample)(keys)
    _, phases["step"] = measure.compile_phases(jax.vmap(env.step), keys, reset(keys)[1], actions)

begin = time.perf_counter()
fleet = make_fleet(
    env,
    args.envs,
    rounds=args.steps // HORIZON,
    bank_size=args.bank,
    trajectory=args.trajectory,
    prng=args.random,
    envs_last=args.envs_last,
)
compile_s = time.perf_counter() - begin
seconds = measure.repeat(fleet.advance, args.repeats)
measure.report(
    steps=fleet.steps,
    checksum=fleet.checksum,
    resets_reused=fleet.resets_reused,
    bank_size=fleet.bank_size,
    compile_s=compile_s,
    phases=phases,
    **seconds,
)
