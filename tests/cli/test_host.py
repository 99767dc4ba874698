"""Host settings that must be made before JAX starts, and what `shoal doctor` reports about them."""

import os
import subprocess
import sys

import jax
import pytest

from commands import refused
from shoal.cli.main import main
from shoal.training.host import SMALL_LOOP, STEPPING_LOOP, check_platform, prepare, unused_gpu


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
def test_doctor_reports_versions_that_can_deadlock(jaxlib, threads, expected):
    from shoal.ops.linear_algebra import can_deadlock

    assert can_deadlock(jaxlib, threads) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", f"--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={SMALL_LOOP}"),
        ("--xla_backend_extra_options=mine=1", "--xla_backend_extra_options=mine=1"),
        ("--a=1", f"--a=1 --xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={SMALL_LOOP}"),
    ],
)
def test_the_small_loop_option_is_set_unless_the_user_sets_xla_options(monkeypatch, given, expected):
    monkeypatch.delitem(sys.modules, "jax")
    for name, value in {**os.environ, "XLA_FLAGS": given}.items():
        monkeypatch.setenv(name, value)  # so that what `prepare` sets is undone
    prepare(threads=2)
    assert os.environ["XLA_FLAGS"] == expected


@pytest.fixture
def asked(monkeypatch):
    """A function: words of a command line -> the host settings that it requests."""

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
def test_host_options_accept_every_spelling_of_a_value(words, cache, threads, asked):
    found = asked("train", "ppo", "CartPole-v1", *words.split())
    assert (found["cache"], found["threads"]) == (cache, threads)


@pytest.mark.parametrize("error", [AssertionError(), RuntimeError("Unknown backend cuda")])
def test_an_unavailable_platform_is_reported(error, monkeypatch):
    def fail():
        raise error

    monkeypatch.setattr(jax, "local_devices", fail)
    check_platform()  # the tests' own: cpu
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    with pytest.raises(ValueError, match="JAX_PLATFORMS=cuda, but JAX cannot start that here .* Unset it"):
        check_platform()


@pytest.mark.slow
def test_a_command_reports_an_unavailable_platform_in_one_line(tmp_path):
    if any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("CUDA is here")
    command = [sys.executable, "-m", "shoal", "train", "ppo", "CartPole-v1", "--steps", "64"]
    given = {**os.environ, "JAX_PLATFORMS": "cuda"}
    done = subprocess.run(command, env=given, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    said = [line for line in done.stderr.splitlines() if "JAX_PLATFORMS=cuda" in line]
    assert done.returncode == 2 and len(said) == 1 and said[0].startswith("shoal: ") and "Unset it" in said[0]
    assert "Traceback" not in done.stderr and not (tmp_path / "runs").exists()


HASH_OF_A_RUN = """
import hashlib, json, os, sys
layers, cores = json.loads(sys.argv[1]), int(sys.argv[2])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
import shoal
shoal.prepare(cache=False)
fields = {"hidden": layers, "num_envs": 8, "num_steps": 64, "num_minibatches": 2, "num_epochs": 2}
options = {"steps": 3 * 512, "records": 1, "evaluations": 0, "preset": None, "progress": False, "figures": False}
run = shoal.train("ppo", "CartPole-v1", seeds=2, fields=fields, folder="run-" + "-".join(sys.argv[2:]), **options)
newest = max((run.folder / "checkpoints").glob("step-*"))
made = json.loads((run.folder / "provenance.json").read_text())
print(hashlib.sha256((newest / "learners.npz").read_bytes()).hexdigest(), made["threads"], made["cores"])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")
@pytest.mark.parametrize("hidden", [(64, 64), (256, 256)])
def test_bits_depend_on_neither_threads_nor_cores(hidden, tmp_path):
    def trained(threads, cores):
        command = [sys.executable, "-c", HASH_OF_A_RUN, str([*hidden]), str(cores), str(threads)]
        given = {**os.environ, "NPROC": str(threads)}
        done = subprocess.run(command, env=given, cwd=tmp_path, capture_output=True, text=True, timeout=200)
        return done.stdout.split() or [done.stderr]

    cores = min(2, len(os.sched_getaffinity(0)))
    alone = trained(1, 1)
    assert alone[1:] == ["1", "1"]
    for threads, on in ((2, cores), (5, 1)):
        assert trained(threads, on) == [alone[0], str(threads), str(on)]


def test_a_benchmark_on_the_cpu_makes_jax_use_only_the_cpu(monkeypatch, capsys):
    monkeypatch.setattr("shoal.training.host.prepare", lambda **options: None)
    monkeypatch.setenv("JAX_PLATFORMS", "")
    with monkeypatch.context() as once:
        once.delitem(sys.modules, "jax")
        once.setattr("shoal.cli.bench.bench", lambda line: None)
        assert main(["bench", "CartPole-v1", "--device=cpu"]) == 0
    assert os.environ["JAX_PLATFORMS"] == "cpu"
    assert "--device gpu: JAX finds no such device" in refused(capsys, "bench", "CartPole-v1", "--device", "gpu")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Run `prepare` in a process with given environment variables: (threads, cache, kernels of small loops)."""
    code = (
        "import os, shoal\n"
        "shoal.prepare()\n"
        "import jax\n"
        "from shoal.training.placement import CPU_OPTIONS\n"
        "env = shoal.make('CartPole-v1')\n"
        "agent = shoal.PPO(hidden=(8,), num_epochs=1, num_minibatches=1).bind(env)\n"
        "state = jax.eval_shape(agent.init, jax.random.key(0), env)\n"
        "update = jax.jit(lambda s: agent.update(s, env, jax.numpy.int32(0))).lower(state)\n"
        "kernels = update.compile(compiler_options=CPU_OPTIONS).as_text().count('xla_cpu_small_call')\n"
        "print(os.environ['NPROC'], jax.config.jax_compilation_cache_dir, kernels)\n"
    )
    cache = str(tmp_path_factory.mktemp("cache"))
    given = {**os.environ, "NPROC": "5", "JAX_COMPILATION_CACHE_DIR": cache, "XLA_FLAGS": ""}
    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    threads, found, kernels = done.stdout.split()
    return threads, found == cache, int(kernels)


def test_the_steps_of_a_small_rollout_are_one_kernel(prepared):
    assert prepared[2] >= 2  # the rollout, and the sum of advantages


def test_the_host_is_set_up_before_jax_and_user_settings_are_kept(prepared):
    assert prepared[:2] == ("5", True)
    import shoal

    with pytest.raises(RuntimeError, match="must come before JAX is imported"):
        shoal.prepare()


def test_a_gpu_that_jax_cannot_use_is_named_with_the_package(monkeypatch):
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setattr("shoal.training.host.nvidia_present", lambda: False)
    assert unused_gpu() == ""
    monkeypatch.setattr("shoal.training.host.nvidia_present", lambda: True)
    assert "pip install 'shoal[cuda13]'" in unused_gpu()
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")  # the user's own choice
    assert unused_gpu() == ""
