"""`shoal evolve`: what its options become, its mistakes, and a run from start to the figures."""

import pytest

import shoal
from commands import refused, say
from shoal.cli.evolve import _vary


def test_vary_reads_paths_ranges_and_starts():
    assert _vary(None) is None
    got = _vary(["value-loss=residual,learning_rate=log(1e-4,1e-2)", "clip=0.1..0.4,entropy_coef", "env.gravity=5..15"])
    assert got == {
        "value_loss": "residual",
        "learning_rate": (1e-4, 1e-2, "log"),
        "clip": (0.1, 0.4),
        "entropy_coef": None,
        "env.gravity": (5, 15),
    }


def test_without_arguments_the_experiments_are_listed(capsys):
    status, out = say(capsys, "evolve")[:2]
    for name, experiment in shoal.experiments().items():
        assert name in out and experiment.about in out


MISTAKES = {
    "evolve value-los": "experiment 'value-los' is not registered. Did you mean value-loss?",
    "evolve ppo": "evolve needs an agent, an environment and what varies",
    "evolve ppo CartPole-v1": "nothing varies: name what evolves",
    "evolve ppo CartPole-v1 --vary learning-rat": "no field 'learning_rat'. Did you mean learning_rate?",
    "evolve ppo CartPole-v1 --vary value_loss": "write value_loss=network or value_loss=residual",
    "evolve ppo CartPole-v1 --vary num_envs": "num_envs shapes the program",
    "evolve ppo CartPole-v1 --vary clip --strategy Open_SE": "Did you mean Open_ES?",
    "evolve ppo CartPole-v1 --vary clip --candidates 3": "Population size must be even",
    "evolve ppo CartPole-v1 --vary clip --segments 2": "records=5 cannot be split into 2 segments",
    "evolve ppo CartPole-v1 --vary clip --learning-rate 1e-3,1e-2": "evolve takes one value for each hyperparameter",
    "evolve ppo CartPole-v1 --vary clip --fitness best": "--fitness 'best' is unknown: choose whole or final",
    "evolve --resume runs/none --generations 3": "leave generations out",
    "evolve --resume runs/none --held-out CartPole-v1": "leave held-out out",
    "evolve ppo --envs CartPole-v1,Acrobo-v1 --vary clip": "Did you mean Acrobot-v1?",
    "evolve ppo --envs CartPole-v1,CartPole-v1 --vary clip": "CartPole-v1 is given twice: name each environment once",
    "evolve ppo Acrobot-v1 --envs CartPole-v1 --vary clip": "env and envs both name environments",
    "evolve ppo --envs CartPole-v1,Acrobot-v1 --vary clip --env.gravity 5": "name an environment first",
    "evolve ppo CartPole-v1 --vary env.gravity=5..15 --held-out Acrobot-v1": "fields of the environment cannot be set",
    "evolve value-loss --generatons 3": "Did you mean --generations?",
    "train ppo CartPole-v1 --found runs/none": "runs/none",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_end_in_one_sentence(words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert MISTAKES[words] in refused(capsys, *words.split())
    assert not (tmp_path / "runs").exists()


NOT_EVALUATED = "runs/small is a search, whose members are candidates that were not evaluated, so none is the best"
OF_AN_EVOLUTION = {
    "export runs/small --out small": NOT_EVALUATED,
    "render runs/small": NOT_EVALUATED,
    "record runs/small --out small.npz": NOT_EVALUATED,
    "train ppo CartPole-v1 --init runs/small": NOT_EVALUATED,
    "compare runs/small zoo:ppo/CartPole-v1": "whose members are candidates with other values in every generation",
    "plot runs/small --by clip": "'clip' changes during runs/small, so curves cannot be pooled by it: draw",
}


def test_an_evolution_from_start_to_figures(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = "--vary surrogate=drift,clip --generations 2 --candidates 4 --seeds 1 --steps 256 --records 2 --name small"
    tiny = "--num-envs 2 --num-steps 64 --num-epochs 1 --num-minibatches 1 --hidden 4"
    status, out = say(capsys, "evolve", "ppo", "CartPole-v1", *words.split(), *tiny.split())[:2]
    (found,) = (line for line in out.splitlines() if line.startswith("found: "))
    assert status == 0 and "surrogate (LearnedDrift)" in found and "clip=" in found and "--found runs/small" in out
    figures = {path.name for path in (tmp_path / "runs" / "small" / "figures").iterdir()}
    assert figures == {"fitness.png", "surrogate.png"}
    for words, message in OF_AN_EVOLUTION.items():
        assert message in refused(capsys, *words.split())
    assert say(capsys, "plot", "runs/small")[1].split() == [
        f"runs/small/figures/{name}" for name in ("fitness.png", "surrogate.png")
    ]


def test_an_evolution_over_environments_prints_how_it_transfers(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = "--envs Blackjack-v1,Taxi-v4 --held-out FrozenLake-v1 --vary learning_rate --preset none --generations 1"
    tiny = "--candidates 4 --seeds 1 --steps 1000 --records 1 --test-seeds 2 --name both"
    status, out = say(capsys, "evolve", "q-learning", *words.split(), *tiny.split())[:2]
    lines = out.splitlines()
    table = lines[lines.index(next(line for line in lines if line.startswith("environment"))) + 2 :]
    assert status == 0 and [line.split()[0] for line in table[:4]] == [
        "Blackjack-v1",
        "Taxi-v4",
        "FrozenLake-v1",
        "mean",
    ]
    assert "held out" in table[2] and "[" not in table[2]  # two seeds have no interval
    assert "FrozenLake-v1: 0 and 1 are random play 0.0155, the return at which it is solved 0.7" in table
    assert say(capsys, "evolve", "--resume", "runs/both")[1].splitlines()[-9:] == lines[-9:]
    assert "in which no run goes on alone: continue all" in refused(capsys, "train", "--resume", "runs/both")
    assert say(capsys, "report", "runs/both")[0] == 0
