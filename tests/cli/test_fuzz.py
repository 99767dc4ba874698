"""Random command lines: each ends with status 0, or with status 2 and one line; none runs longer than the limit."""

import contextlib
import functools
import io
import signal
import tempfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.cli.main import COMMANDS, main
from shoal.core import registry
from shoal.specs.describe import describe_fields

SECONDS = 60  # seconds for one line; far more than any line needs on an idle machine
NUMBERS = (
    "0 -1 1 3 2147483647 1e400 -1e400 1e39 2147483648 18446744073709551616 1e9 1e18 nan inf -inf 1e-400 0x10 1_000 ٣ ²"
)
LONG_NUMBERS = ["1" + "0" * 30, "9" * 5000]
WORDS = ["", ",", "1,,2", "1,2,1", "true", "none", "64,64", "8x8", "a b", "é", "\0", "\udce9"]
WORDS += ["FrameStack", "TimeLimit:max_steps=2", "Reseed:seeds=1,", "Randomize:=", "clip=1..2", "clip=log(,)", "n=.."]
WORDS += ["--", "-", "=", "-h", "%s", "{}", "a" * 5000]
PLACES = (
    "os:path os.path:join : a: :a .:X .. / /dev/zero /dev/zero:X /dev/null:X zoo: zoo:x zoo:../zoo/ppo x.py:X "
    "/dev/zero.py:X shoal:PPO shoal.agents.ppo:PPO json:JSONDecoder"
)
AGENTS = ["ppo", "dqn", "sac", "es", "q-learning"]
ENVS = ["CartPole-v1", "Pendulum-v1", "MiniGrid-Empty-5x5-v0", "bsuite/catch/0"]
OPTIONS = (
    "steps seeds seed preset suite resume name root records evaluations eval-episodes eval-max-steps prng block "
    "devices memory-limit-gb threads no-cache no-figures help wrap search trust-source"
)
FIELDS = (
    "num-envs num_steps hidden learning-rate discount shared memory buffer-size batch-size clip num-minibatches "
    "epochs surrogate population initializer horizon env.gravity env.max-steps env.size env.integrator env.tile-size "
    "env. env x"
)
QUICK = sorted(
    {*COMMANDS} - {"bench", "suites", "check", "demo", "doctor", "completion", "envs", "ui", "verify"}
)  # without commands that always take long

numbers = st.sampled_from([*NUMBERS.split(), *LONG_NUMBERS])
values = st.one_of(numbers, st.sampled_from([*WORDS, *PLACES.split(), *AGENTS, *ENVS]))
fields = st.sampled_from(FIELDS.split()).map("--{}".format)
flags = st.one_of(fields, st.sampled_from([*OPTIONS.split(), ""]).map("--{}".format))
pieces = st.one_of(
    st.tuples(flags, values),
    st.tuples(flags, values).map("=".join).map(lambda word: (word,)),
    flags.map(lambda word: (word,)),
    values.map(lambda word: (word,)),
    st.tuples(fields, numbers),
)
lines = st.lists(pieces, min_size=1, max_size=4).map(lambda found: [word for piece in found for word in piece])


def answer(words):
    """(status, standard error) of a command line, which must end within the limit."""

    def too_long(signum, frame):
        raise TimeoutError(f"{words} took more than {SECONDS} s")

    err = io.StringIO()
    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
            return main(words), err.getvalue()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def check(words):
    status, said = answer(words)
    assert status == 0 or (status == 2 and said.startswith("shoal: ") and said.count("\n") == 1), (status, said)


SMALL = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@settings(SMALL, max_examples=120)
@given(st.sampled_from(QUICK), lines)
def test_any_words_after_a_command_give_one_line(command, words):
    check([command, *words, *["--dry-run"] * (command in ("train", "bsuite"))])


@settings(SMALL, max_examples=80)
@given(st.sampled_from(AGENTS), st.sampled_from(ENVS), lines)
def test_any_flags_of_a_run_give_one_line(agent, env, words):
    check(["train", agent, env, *words, "--dry-run"])


@pytest.mark.long
@settings(SMALL, derandomize=False, max_examples=5_000)
@given(st.sampled_from(AGENTS), st.sampled_from(ENVS), lines)
def test_many_flags_of_a_run_give_one_line(agent, env, words):
    check(["train", agent, env, *words, "--dry-run"])


# Odd settings that are trained.

TINY = {"num_envs": 2, "num_steps": 8, "hidden": "4", "population": 4, "batch_size": 4, "buffer_size": 64}
TRAINED = [
    ("ppo", "CartPole-v1"),
    ("ppo", "Pendulum-v1"),
    ("pqn", "CartPole-v1"),
    ("dqn", "CartPole-v1"),
    ("sac", "Pendulum-v1"),
    ("td3", "Pendulum-v1"),
    ("es", "CartPole-v1"),
    ("q-learning", "CliffWalking-v1"),
]
ENDS = "--steps 32 --records 1 --evaluations 1 --eval-episodes 1 --eval-max-steps 5 --preset none --no-figures"


@functools.cache
def usual_of(agent):
    """The fields of an agent as it is built by name."""
    return describe_fields(registry.AGENTS[agent].build())


@st.composite
def odd_settings(draw):
    """A short training with up to three fields at their edges: sizes of one, rates of zero, numbers near infinity."""
    agent, env = draw(st.sampled_from(TRAINED))
    usual = usual_of(agent)
    names = [name for name, value in usual.items() if isinstance(value, bool | int | float)]
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    odd = {name: draw(_values_like(usual[name])) for name in chosen}
    given = {**{name: value for name, value in TINY.items() if name in usual}, **odd}
    return ["train", agent, env, *ENDS.split(), *[f"--{name.replace('_', '-')}={x}" for name, x in given.items()]]


def _values_like(usual):
    if isinstance(usual, bool):
        return st.sampled_from(["true", "false"])
    if isinstance(usual, int):
        return st.sampled_from([0, 1, 2, 3, 7, 33, 1000])
    return st.sampled_from(["0", "1", "1e-38", "1e-7", "0.999999", "2", "1e9", "3e38", "-1"])


@pytest.fixture(scope="module")
def imported():
    """Agents whose modules are imported: a library among them draws random numbers then, which strategies must not."""
    return [usual_of(agent) for agent, _ in TRAINED]


@pytest.mark.slow
@pytest.mark.usefixtures("imported")
@pytest.mark.timeout(3000)
@settings(SMALL, max_examples=40)
@given(words=odd_settings())
def test_odd_settings_train_or_are_refused_in_one_line(words):
    with tempfile.TemporaryDirectory() as root:
        check([*words, "--root", root])
