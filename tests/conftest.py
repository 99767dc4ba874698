"""Test environment: a CPU that JAX sees as four devices, strict promotion, fixed threads; set before JAX is imported.

Compiled programs are cached on disk for one test session, separately from the user's cache. The fixture `clear_caches`
drops the programs in memory after each file; later files, other workers and subprocesses of tests load them from disk.

Programs are compiled as the command line compiles them, unless SHOAL_TEST_XLA_LEVEL limits LLVM's optimization. With 0,
as `make test` sets it, compilation takes half the time, and a seventh with jaxlib 0.10, whose older code generator is
then used too. `make test-all` compiles as the command line does.

SHOAL_TEST_PLATFORM=cuda,cpu runs them on a GPU instead. SHOAL_TEST_FORM=gpu writes all programs in the form of a GPU
(`core/form.py`), on whatever device they run: `SHOAL_TEST_FORM=gpu pytest tests/parity tests/envs tests/grid`.
"""

import atexit
import collections
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from importlib.metadata import version

os.environ["JAX_PLATFORMS"] = os.environ.get("SHOAL_TEST_PLATFORM", "cpu")
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # several workers share a GPU
os.environ["MPLBACKEND"] = "Agg"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ.setdefault("NPROC", "2")
is_worker = "PYTEST_XDIST_WORKER" in os.environ  # then the process that started it has made the folders
if not is_worker:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="shoal-test-programs-")
    os.environ["SHOAL_MNIST"] = tempfile.mkdtemp(prefix="shoal-test-mnist-")
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="shoal-test-state-")

import mnist_files  # noqa: E402
from shoal.training.host import with_small_loops  # noqa: E402

LEVEL = os.environ.get("SHOAL_TEST_XLA_LEVEL", "")
FORM = os.environ.get("SHOAL_TEST_FORM", "")
# As the command line compiles, so that runs that tests start there and here are equal to the last bit.
FLAGS = "--xla_force_host_platform_device_count=4" + (f" --xla_backend_optimization_level={LEVEL}" if LEVEL else "")
if LEVEL and version("jaxlib").startswith("0.10."):  # later versions do not know the flag
    FLAGS += " --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", with_small_loops(FLAGS))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a script started the tests with `&`; some tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

if not is_worker:
    for folder in ("JAX_COMPILATION_CACHE_DIR", "SHOAL_MNIST", "XDG_STATE_HOME"):
        atexit.register(shutil.rmtree, os.environ[folder], ignore_errors=True)
    mnist_files.write(os.environ["SHOAL_MNIST"])

import jax  # noqa: E402
import jaxtyping  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# These run optimizers, which are optax's, and optax relies on JAX's standard promotion of dtypes.
WITH_OPTIMIZERS = {"agents", "rollouts", "training", "studies", "cli", "viz", "population", "test_docs.py"}


@pytest.hookimpl(tryfirst=True)  # before `-m "not slow"` chooses
def pytest_collection_modifyitems(items):
    """Mark as slow what `sampled(N)` leaves out: of a test's cases N stay, the first and others evenly spread."""
    tests = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not {"slow", "long"} & {mark.name for mark in item.iter_markers()}:
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        wanted = (cases[0].get_closest_marker("sampled").args or (1,))[0]
        stay = {i * (len(cases) - 1) // max(wanted - 1, 1) for i in range(min(wanted, len(cases)))}
        for i, item in enumerate(cases):
            if i not in stay:
                item.add_marker("slow")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test marked `optimized` in a process of its own where this one compiles otherwise than the command line."""
    if not LEVEL or not pyfuncitem.get_closest_marker("optimized"):
        return None
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    del environment["SHOAL_TEST_XLA_LEVEL"], environment["XLA_FLAGS"]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "optimized", pyfuncitem.nodeid]
    ran = subprocess.run(command, env=environment, cwd=pyfuncitem.config.rootpath, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return True


@pytest.fixture(autouse=True)
def promotion(request):
    """Standard promotion where an optimizer runs, strict promotion everywhere else."""
    learns = WITH_OPTIMIZERS & set(request.path.parts)
    with jax.numpy_dtype_promotion("standard") if learns else contextlib.nullcontext():
        yield


@pytest.fixture(autouse=True, scope="session")
def form_of_programs():
    """Write programs in the form of the platform that SHOAL_TEST_FORM names, if it names one."""
    from shoal.core.form import form_for, using

    with using(form_for(FORM)._replace(interpreted_kernels=True)) if FORM else contextlib.nullcontext():
        yield


@pytest.fixture(autouse=True, scope="module")
def clear_caches():
    """Drop compiled programs after each file: the next file does not use them, and they would fill the memory."""
    yield
    jax.clear_caches()


@pytest.fixture
def without_type_checker():
    """Calls as users make them: the type checker of the tests, which would raise first, is off."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def two_cores(monkeypatch):
    """Members are trained in two threads, on a machine with one core too."""
    monkeypatch.setattr("shoal.training.placement.usable_cores", lambda: 2)


@pytest.fixture(scope="session")
def result(tmp_path_factory):
    """A small finished run of PPO on CartPole: two learning rates, two seeds each."""
    import shoal
    from tiny import FIELDS, OPTIONS, SILENT

    with jax.numpy_dtype_promotion("standard"):
        return shoal.train(
            "ppo",
            "CartPole-v1",
            seeds=2,
            fields=FIELDS,
            sweep={"learning_rate": [1e-3, 1e-2]},
            preset=None,
            folder=tmp_path_factory.mktemp("runs") / "small",
            **OPTIONS,
            **SILENT,
        )
