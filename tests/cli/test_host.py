"""What must be decided before JAX starts, and what the doctor says about it."""

import os
import subprocess
import sys

import jax
import pytest

from commands import refused
from shoal.cli.main import main
from shoal.training.host import SMALL_LOOP, STEPPING_LOOP, check_platform, prepare


@pytest.mark.parametrize(
    ("jaxlib", "threads", "expected"),
    [
        ("0.10.2", "2", True),
        ("0.10.2", "16", False),
        ("0.11.0", "", True),
        ("0.11.1", "2", False),
        ("0.9.2", "2", False),
    ],
)
def test_the_doctor_knows_which_versions_can_deadlock(jaxlib, threads, expected):
    from shoal.cli.doctor import can_deadlock

    assert can_deadlock(jaxlib, threads) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", f"--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={SMALL_LOOP}"),
        ("--xla_backend_extra_options=mine=1", "--xla_backend_extra_options=mine=1"),
        ("--a=1", f"--a=1 --xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={SMALL_LOOP}"),
    ],
)
def test_small_loops_are_asked_for_unless_the_user_asks_otherwise(monkeypatch, given, expected):
    monkeypatch.delitem(sys.modules, "jax")
    for name, value in {**os.environ, "XLA_FLAGS": given}.items():
        monkeypatch.setenv(name, value)  # so that what `prepare` sets is undone
    prepare(threads=2)
    assert os.environ["XLA_FLAGS"] == expected


@pytest.fixture
def asked(monkeypatch):
    """What the host is asked for by a command line: a function of its words."""

    def of(*words):
        asked = {}
        with monkeypatch.context() as once:
            once.setattr("shoal.training.host.prepare", lambda **options: asked.update(options))
            once.setattr("shoal.cli.parser.Parser.finish", lambda self, split: split)
            once.setattr("shoal.cli.train.train", lambda line: None)
            once.setattr("shoal.cli.bench.bench", lambda line: None)
            once.delitem(sys.modules, "jax")
            assert main([*words]) == 0
        return asked

    return of


def test_stepping_without_a_network_fuses_larger_loops(asked):
    assert asked("bench", "CartPole-v1")["small_loop"] == STEPPING_LOOP
    assert asked("bench", "CartPole-v1", "--policy", "mlp")["small_loop"] == SMALL_LOOP
    assert asked("bench", "CartPole-v1", "--policy=mlp")["small_loop"] == SMALL_LOOP
    assert asked("train", "ppo", "CartPole-v1")["small_loop"] == SMALL_LOOP


@pytest.mark.parametrize(
    ("words", "cache", "threads"),
    [
        ("--no_cache --threads 1e1", False, 10),
        ("--no-cache --threads=1_6", False, 16),
        ("--threads -4", True, 0),
        ("--steps 5", True, 0),
    ],
)
def test_what_the_host_needs_to_know_is_an_option_like_others(words, cache, threads, asked):
    found = asked("train", "ppo", "CartPole-v1", *words.split())
    assert (found["cache"], found["threads"]) == (cache, threads)


@pytest.mark.parametrize("error", [AssertionError(), RuntimeError("Unknown backend cuda")])
def test_a_platform_that_is_not_here_is_said_in_words(error, monkeypatch):
    def fail():
        raise error

    monkeypatch.setattr(jax, "local_devices", fail)
    check_platform()  # the tests' own: cpu
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    with pytest.raises(ValueError, match="JAX_PLATFORMS=cuda, but JAX cannot start that here .* Unset it"):
        check_platform()


def test_a_benchmark_on_the_cpu_keeps_jax_from_anything_else(monkeypatch, capsys):
    monkeypatch.setattr("shoal.training.host.prepare", lambda **options: None)
    monkeypatch.setenv("JAX_PLATFORMS", "")
    with monkeypatch.context() as once:
        once.delitem(sys.modules, "jax")
        once.setattr("shoal.cli.bench.bench", lambda line: None)
        assert main(["bench", "CartPole-v1", "--device=cpu"]) == 0
    assert os.environ["JAX_PLATFORMS"] == "cpu"
    assert "--device gpu: JAX sees none here" in refused(capsys, "bench", "CartPole-v1", "--device", "gpu")


def test_the_steps_of_a_small_rollout_are_one_kernel():
    code = (
        "import shoal\n"
        "shoal.prepare(cache=False)\n"
        "import jax\n"
        "from shoal.training.placement import CPU_OPTIONS\n"
        "env = shoal.make('CartPole-v1')\n"
        "agent = shoal.PPO(hidden=(8,)).bind(env)\n"
        "state = jax.eval_shape(agent.init, jax.random.key(0), env)\n"
        "update = jax.jit(lambda s: agent.update(s, env, jax.numpy.int32(0))).lower(state)\n"
        "print(update.compile(compiler_options=CPU_OPTIONS).as_text().count('xla_cpu_small_call'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "XLA_FLAGS": ""}, capture_output=True, text=True, timeout=120
    )
    assert int(done.stdout) >= 2, done.stderr  # the rollout, and the sum of advantages


def test_the_host_is_set_up_before_jax_and_what_is_set_is_honored():
    code = (
        "import os, shoal\n"
        "shoal.prepare()\n"
        "import jax\n"
        "print(os.environ['NPROC'], jax.config.jax_compilation_cache_dir)\n"
    )
    given = {**os.environ, "NPROC": "5", "JAX_COMPILATION_CACHE_DIR": "/nowhere", "XLA_FLAGS": ""}
    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["5", "/nowhere"], done.stderr
    import shoal

    with pytest.raises(RuntimeError, match="must come before JAX is imported"):
        shoal.prepare()
