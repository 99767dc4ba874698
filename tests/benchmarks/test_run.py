"""The benchmark driver: sides alternate, medians are reported, and the table lists what was measured."""

import importlib.util
import itertools
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def run():
    spec = importlib.util.spec_from_file_location("benchmarks_run", BENCHMARKS / "run.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_sides_alternate_and_the_median_is_reported(run, monkeypatch, capsys):
    asked = []
    answers = {"a": iter([3.0, 1.0, 2.0]), "b": iter([10.0, 40.0, 20.0])}

    def ask(side, python, cache):
        asked.append(side.name)
        return {"score": next(answers[side.name])}

    monkeypatch.setattr(run, "ask", ask)
    contest = run.Contest("race", (run.Side("a", "x"), run.Side("b", "y")), lambda answer: answer["score"], "s")
    result = run.run_contest(contest, "python", 3)
    assert asked == ["a", "b", "a", "b", "a", "b"]
    assert result["median"] == {"a": 2.0, "b": 20.0}
    assert "race | b | 40 s" in capsys.readouterr().out


def test_a_warm_cache_is_filled_by_an_unmeasured_run_and_a_cold_cache_is_always_new(run, monkeypatch):
    places = {"filled": [], "empty": []}
    for cache, seen in places.items():
        monkeypatch.setattr(run, "ask", lambda side, python, place, seen=seen: seen.append(place) or {"score": 1.0})
        run.run_contest(
            run.Contest("c", (run.Side("a", "x"),), lambda answer: answer["score"], "s", cache), "python", 2
        )
    assert len(places["filled"]) == 3 and len(set(places["filled"])) == 1
    assert len(places["empty"]) == 2 and len(set(places["empty"])) == 2


def test_a_failing_worker_is_named_with_its_error(run):
    with pytest.raises(RuntimeError, match=r"no_such_worker\.py .*ended with code 2"):
        run.ask(run.Side("a", "no_such_worker", ("--x",)), sys.executable, None)


def test_rates_are_the_median_of_the_repeats(run):
    # 6 million steps in 3 s (the median of 2, 3 and 60) are 2 million a second.
    assert run.stepping_rate({"steps": 6e6, "wall_s": [60.0, 2.0, 3.0]}) == 2.0
    assert run.training_rate({"steps": 512_000, "run_s": 4.0}) == 128.0


def test_the_table_has_a_row_per_contest_with_the_ratio_and_the_machine(run):
    report = {
        "machine": run.machine(),
        "versions": {"jax": "1.2.3"},
        "rounds": 3,
        "load_average_after": (0.5, 0.5, 0.5),
        "results": [{"contest": "stepping", "unit": "M steps/s", "median": {"gymnax": 4.0, "shoal": 42.0}}],
    }
    text = run.table(report)
    assert "| stepping | gymnax 4 M steps/s | shoal 42 M steps/s | 10.50 |" in text
    assert "jax 1.2.3. Medians of 3 rounds" in text
    assert report["machine"]["cpu"] in text


def test_every_worker_of_every_suite_exists(run):
    class Options:
        envs, num_envs, seeds = None, 2048, [1]

    contests = itertools.chain.from_iterable(make(Options) for make in run.SUITES.values())
    for side in itertools.chain.from_iterable(contest.sides for contest in contests):
        assert (run.WORKERS / f"{side.worker}.py").is_file(), side.worker


def test_operations_of_a_step_are_those_of_its_products(run):
    # PPO: forward of 4-64-64-2 is 2 (256 + 4096 + 128) = 8,960 and of 4-64-64-1 8,832; a gradient is three times that
    # less 2 x 256 for the inputs: 26,368 and 25,984. 8,960 + 8,832 + 4 (26,368 + 25,984) = 227,200.
    assert run.operations_per_step("ppo") == 227_200
    # DQN: forward of 4-120-84-2 is 2 (480 + 10,080 + 168) = 21,456, its gradient 63,408. 21,456 + 12.8 (84,864).
    assert run.operations_per_step("dqn") == pytest.approx(21_456 + 12.8 * 84_864)


def test_the_fraction_of_the_peak_is_operations_over_seconds(run):
    contest = run.peak_contest("PPO", run.Side("shoal", "ppo_shoal"), operations=200_000.0)
    assert [side.worker for side in contest.sides] == ["peak", "ppo_shoal"]
    assert contest.score({"gflops": 80.0}) == 80.0
    assert contest.score({"steps": 500_000, "run_s": 5.0}) == 20.0  # 100,000 steps a second of 200,000 operations


def test_the_peak_is_measured(run):
    answer = run.ask(
        run.Side("peak", "peak", ("--size", "64", "--products", "2", "--repeats", "2")), sys.executable, None
    )
    seconds = min(answer["fastest_s"].values())
    assert answer["gflops"] == pytest.approx(2 * 64**3 * 2 * answer["cores"] / seconds / 1e9)


def test_the_stepping_worker_prints_one_line(run):
    side = run.Side("shoal", "step_shoal", ("--envs", "4", "--steps", "200", "--repeats", "2"))
    answer = run.ask(side, sys.executable, None)
    assert answer["steps"] == 800
    assert len(answer["wall_s"]) == 2
    assert answer["resets_reused"] == 0
    assert answer["checksum"] != 0
    assert json.dumps(answer["versions"])


@pytest.mark.parametrize(
    ("mode", "env", "steps"),
    [("alone", "BabyAI-GoToLocal-v0", 3), ("numpy", "CartPole-v1", 12), ("sync", "Doors-v0", 12)],
)
def test_environments_that_python_calls_are_counted_alike(run, mode, env, steps):
    pytest.importorskip("minigrid" if mode == "alone" else "gymnasium")
    sizes = ("--mode", mode, "--env", env, "--envs", "4", "--steps", "3", "--repeats", "2")
    answer = run.ask(run.Side(mode, "step_called", sizes), sys.executable, None)
    assert answer["steps"] == steps and len(answer["wall_s"]) == len(answer["cpu_s"]) == 2
