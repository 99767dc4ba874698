"""Whether kernels are used."""

import subprocess
import sys

import pytest

from shoal.ops.kernels import is_used


def applies():
    return None


def refuses():
    return "the operation sort has no rule in a kernel"


@pytest.mark.parametrize(
    ("kernels", "platform", "why_not", "is_faster", "used"),
    [
        ("auto", "gpu", applies, True, True),
        ("auto", "gpu", applies, False, False),
        ("auto", "gpu", refuses, True, False),
        ("auto", "cpu", applies, True, False),
        ("on", "gpu", applies, False, True),
        ("off", "gpu", applies, True, False),
    ],
)
def test_kernels_are_used_where_they_apply_and_are_faster(kernels, platform, why_not, is_faster, used):
    assert is_used(kernels, platform, why_not, is_faster=is_faster) is used


@pytest.mark.parametrize(
    ("platform", "why_not", "reason"), [("gpu", refuses, "the operation sort"), ("cpu", applies, "the platform is cpu")]
)
def test_asking_for_kernels_that_do_not_apply_names_the_condition(platform, why_not, reason):
    with pytest.raises(ValueError, match=f"kernels='on', but .*{reason}.*kernels='auto' or 'off'"):
        is_used("on", platform, why_not)


def test_why_not_is_not_asked_where_it_does_not_matter():
    """Tracing a loss takes time."""

    def not_asked():
        raise AssertionError

    assert not is_used("auto", "cpu", not_asked)
    assert not is_used("off", "gpu", not_asked)
    assert not is_used("auto", "gpu", not_asked, is_faster=False)


def test_importing_kernels_imports_neither_pallas_nor_a_device():
    code = (
        "import sys, jax, shoal.ops.kernels.gradient, shoal.ops.kernels.loop\n"
        "print('jax.experimental.pallas' in sys.modules, jax._src.xla_bridge.backends_are_initialized())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
