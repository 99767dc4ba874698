"""Kernels of our own compile for an H100: few launches and bytes, no or few spilled registers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_program import device

pytestmark = [
    pytest.mark.gpu_program,
    pytest.mark.skipif(bool(device.missing()), reason=device.missing() or "it is there"),
]
MEMBERS, SHARED = 2048, 232_448  # bytes of shared memory of an H100
WEIGHTS = 2 * (4 * 64 + 64 + 64 * 64 + 64) + (64 * 2 + 2) + (64 + 1)


def compiled(what):
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, str(Path(__file__).with_name("compiled_kernel.py")), what]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-500:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_the_gradient_is_two_kernels_and_reads_the_weights_once():
    """And one more kernel, which joins the losses of both. XLA's form has 28 launches and 2,359 MB."""
    program = compiled("gradient")
    rows = 128 * 9 * 4  # bytes of a minibatch: an observation of 4 numbers, and 5 columns
    least = MEMBERS * (2 * 4 * WEIGHTS + rows)
    assert program["launches"] <= 3
    assert program["bytes"] < 1.1 * least + MEMBERS * rows  # both kernels read the minibatch
    assert program["shared"] <= SHARED / 2  # at least two blocks of threads on a multiprocessor
    assert len(program["spilled"]) == 2
    assert max(program["spilled"]) <= 512  # smaller chunks spill nothing, and were measured to be slower


def test_the_gradient_on_a_replay_buffer_is_one_kernel():
    """It reads the target network, too. XLA's form of an update has 16 more launches and 2,340 MB more."""
    program = compiled("replay_gradient")
    weights = 4 * 120 + 120 + 120 * 84 + 84 + 84 * 2 + 2
    rows = 128 * 12 * 4  # two observations of 4 numbers, and 4 columns
    assert program["launches"] == 1
    assert program["bytes"] < 1.1 * MEMBERS * (3 * 4 * weights + rows)
    assert program["shared"] <= SHARED
    (spilled,) = program["spilled"]
    assert spilled <= 2048


def test_a_rollout_is_one_kernel():
    """Beside it there are kernels that draw the noise and the reset bank, and none that is launched in every step."""
    program = compiled("rollout")
    assert program["launches"] < 20
    assert program["bytes"] < 130e6
    assert program["shared"] <= SHARED / 8
    assert program["spilled"] == [0]
