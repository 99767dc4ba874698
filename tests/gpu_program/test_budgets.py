"""No CUDA program has more launches or bytes than its budget, compiled for a GPU that is not there."""

import pytest
from cuda_program import budgets, device

from gpu_program import count_elsewhere, parser

pytestmark = pytest.mark.gpu_program
needs_the_compiler = pytest.mark.skipif(bool(device.missing()), reason=device.missing() or "it is there")


@needs_the_compiler
@pytest.mark.parametrize("command", budgets.read())
def test_a_program_keeps_to_its_budget(command):
    row = count_elsewhere(command.split(), parser().parse_args(["budgets"]))
    assert "error" not in row, row
    assert not budgets.excess(row, budgets.read()[command]), f"see: python benchmarks/gpu_program.py {command}"


@needs_the_compiler
def test_another_form_of_a_program_exceeds_the_budget():
    """The loop of a rollout in the form of a CPU has more launches: the budgets would notice it."""
    command = "env CartPole-v1 --envs 1024"
    row = count_elsewhere(command.split(), parser().parse_args(["budgets", "--form", "cpu"]))
    assert "launches" in budgets.excess(row, budgets.read()[command])


def test_an_excess_names_what_there_is_too_much_of():
    budget = {"launches": 10.0, "megabytes": 2.0}
    assert budgets.excess({"launches": 10.05, "bytes": 2.01e6}, budget) == ""  # within one percent
    assert budgets.excess({"launches": 10.2, "bytes": 2e6}, budget) == "10.2 launches, the budget is 10"
    assert budgets.excess({"launches": 5, "bytes": 3e6}, budget) == "3 megabytes, the budget is 2"


def test_budgets_are_written_as_they_are_read(tmp_path):
    budgets.write(budgets.read(), tmp_path / "budgets.toml")
    assert (tmp_path / "budgets.toml").read_text() == budgets.FILE.read_text()
