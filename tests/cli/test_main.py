"""The command line: help that answers at once, and what each mistake is answered with."""

import subprocess
import sys

import jax
import pytest

from commands import refused, say
from shoal.cli.main import main

# Help answers at once.


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["train", "--help"], ["play", "--help"], ["trian"]])
def test_help_needs_no_jax(words):
    code = f"import sys\nfrom shoal.cli.main import main\nmain({words})\nassert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


def test_the_help_of_train_lists_hyperparameters_and_constants(capsys):
    assert main(["train", "ppo", "CartPole-v1", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--clip X[,X] bound on the change of probability ratio and value; from 0 to 1e+09; default 0.2" in text
    assert "--env.gravity X[,X] default 9.8" in text and "--observation-space" not in text


# Mistakes.


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("trian", "unknown command 'trian'. Did you mean train?"),
        ("train pppo CartPole-v1", "agent 'pppo' is not registered. Did you mean ppo?"),
        ("train ppo CartPol-v1", "env 'CartPol-v1' is not registered. Did you mean CartPole-v1"),
        ("train CartPole-v1 ppo", "the agent comes first: shoal train ppo CartPole-v1"),
        ("train ppo os.path:join", "os.path:join is no env: name a class that has @struct above it"),
        ("train ppo CartPole-v1 --lr 1", "Did you mean --learning-rate? `shoal train ppo CartPole-v1 --help` lists"),
        ("train ppo CartPole-v1 --lerning-rate 1", "unknown flag --lerning-rate. Did you mean --learning-rate"),
        ("train ppo CartPole-v1 --env.gravty 1", "unknown flag --env.gravty. Did you mean --env.gravity"),
        ("train ppo CartPole-v1 Pendulum-v1", "unexpected argument 'Pendulum-v1'"),
        ("train ppo", "train needs an agent and an environment"),
        ("train ppo CartPole-v1 --num-minibatches 5", "num_minibatches=5 does not divide. Try 2 or 4."),
        ("train ppo CartPole-v1 --discount 1.5", "PPO.discount=1.5 is out of range: it must lie in [0, 1]"),
        ("train ppo CartPole-v1 --discount high", "--discount high is not a number. The default is 0.99."),
        ("train ppo CartPole-v1 --num-envs 1.5", "--num-envs 1.5 is not a whole number"),
        ("train ppo CartPole-v1 --shared maybe", "--shared maybe is not true or false"),
        ("train ppo CartPole-v1 --steps many", "argument --steps: many is not a whole number"),
        ("train ppo CartPole-v1 --seeds 1.5", "argument --seeds: 1.5 is not a whole number"),
        (
            "train ppo CartPole-v1 --seed 99999999999999999999",
            "--seed: 99999999999999999999 does not fit in 64 bits",
        ),
        ("train ppo CartPole-v1 --steps 1e99", "argument --steps: 1e99 does not fit in 64 bits"),
        ("train ppo CartPole-v1 --steps 1e12 --records 2e9", "records=2000000000 must be at most 1,000,000"),
        ("train ppo CartPole-v1 --eval-max-steps 1e12", "eval_max_steps=1000000000000 must be at most"),
        ("train ppo CartPole-v1 --learning-rate 1e400", "--learning-rate 1e400 is too large"),
        ("train ppo CartPole-v1 --num-envs 1e30", "--num-envs 1e30 is too large"),
        ("train ppo CartPole-v1 --env.max-steps 99999999999", "--env.max-steps 99999999999 is too large"),
        ("train ppo Acrobot-v1 --env.torques=nan,0,1", "nan,0,1 is not a list of numbers, as in -1.0,0.0,1.0"),
        ("train ppo Acrobot-v1 --env.torques=-1,1", "torques=(-1.0, 1.0) needs three numbers, one for each action"),
        ("train ppo CartPole-v1 --hidden 8.5", "--hidden 8.5 is not a list of whole numbers, as in 64,64"),
        ("train ppo CartPole-v1 --threads 1e9", "--threads 1000000000 must be from 1 to 1024"),
        ("train ppo CartPole-v1 --memory-limit-gb 1e400", "argument --memory-limit-gb: 1e400 is too large"),
        ("train ppo CartPole-v1 --steps 1 --steps 2", "--steps is given twice: write it once"),
        ("train ppo CartPole-v1 --num-envs 4,,8", "--num-envs needs a value, or several separated by commas: 4"),
        ("train ppo CartPole-v1 --dry-run=yes", "--dry-run takes no value"),
        ("train ppo CartPole-v1 --learning-rate", "--learning-rate needs a value"),
        ("train ppo --suite classic --env.gravity 5", "--env.gravity is not an option of shoal train"),
        ("train /dev/zero:X CartPole-v1", "module '/dev/zero' cannot be found"),
        ("train ppo CartPole-v1 --seeds 1e12", "members of"),
        ("train .:X CartPole-v1", "'.' is no module: write package.module:Class"),
        ("train ppo MiniGrid-Empty-5x5-v0 --env.size 1e9", "this needs more memory than this machine has"),
        ("envs :", "'' is no module"),
        ("train ppo CartPole-v1 --num-envs 2147483647 --num-steps 2147483647", "does not divide. Try 1"),
        ("bench CartPole-v1 --seconds inf", "--seconds inf must lie between 0 and 3,600"),
        ("bench CartPole-v1 --sizes 1e30", "is not a list of whole numbers from 1 to"),
        ("train ppo CartPole-v1 --num-envs inf", "--num-envs inf is not a whole number"),
        ("train ppo CartPole-v1 --hidden 64,0", "hidden=(64, 0) has a layer without units"),
        ("train ppo CartPole-v1 --env.gravity nan", "--env.gravity nan is not a number"),
        (
            "train ppo CartPole-v1 --env.max-steps 9,0",
            "max_steps=0 is not a valid time limit: it must be a whole number",
        ),
        ("train ppo CartPole-v1 --threads -4", "--threads -4 must be from 1"),
        ("train ppo CartPole-v1 --devices -1", "devices=-1 must not be negative"),
        ("train ppo CartPole-v1 --memory-limit-gb -1", "the memory limit must not be negative"),
        ("train ppo CartPole-v1 --memory-limit-gb x", "argument --memory-limit-gb: x is not a number"),
        ("train ppo CartPole-v1 --steps 0", "steps=0 must be at least 1"),
        ("train ppo CartPole-v1 --steps", "--steps needs a value"),
        ("train ppo CartPole-v1 --prng dice", "prng='dice' is unknown. Choose one of: mix32"),
        ("train ppo CartPole-v1 --surrogate x", "surrogate='x' is unknown. Choose one of clipped"),
        ("train ppo CartPole-v1 --preset speedy", "ppo has no preset 'speedy' for CartPole-v1"),
        ("train ppo CartPole-v1 --devices 99", "devices=99 were asked for, but JAX sees"),
        ("train ppo CartPole-v1 --memory-limit-gb 1e-6", "more than the"),
        ("train ppo --suite clasic", "suite 'clasic' is not registered. Did you mean classic?"),
        ("train ppo CartPole-v1 --suite classic", "not both"),
        ("train ppo nothing.py:MyEnv", "nothing.py does not exist"),
        ("train --resume nothing", "nothing is not a run folder: it has no spec.json"),
        ("eval nothing", "nothing is not a run folder"),
        ("bench nothing", "env 'nothing' is not registered"),
        ("bench CartPole-v1 --sizes few", "argument --sizes: few is not a list of whole numbers from 1"),
        ("plot nothing", "nothing"),
        ("compare nothing nothing", "nothing is not a run folder"),
        ("render CartPol-v1", "env 'CartPol-v1' is not registered"),
        ("envs CartPol-v1", "env 'CartPol-v1' is not registered"),
    ],
)
def test_a_mistake_is_answered_in_one_line(words, answer, capsys):
    assert answer in refused(capsys, *words.split())


def test_debug_shows_where_an_error_comes_from():
    with pytest.raises(ValueError, match="is not registered"):
        main(["train", "pppo", "CartPole-v1", "--debug"])


def test_environments_are_listed_by_family(capsys):
    out = say(capsys, "envs")[1]
    families = {line.split()[0]: int(line.split()[1]) for line in out.splitlines()[2:-2]}
    assert families == {
        "bsuite": 469,
        "classic": 6,
        "gridworlds": 3,
        "meta": 8,
        "minatar": 10,
        "minigrid": 76,
        "planar": 3,
        "toy_text": 6,
    }
    assert "Probe" not in out


@pytest.mark.parametrize(
    ("words", "has", "has_not"),
    [
        ("classic", "CartPole-v1", "Breakout"),
        ("--family classic --actions continuous", "Pendulum-v1", "CartPole-v1"),
        ("--family classic --actions discrete", "CartPole-v1", "Pendulum-v1"),
        ("--family minatar --observations image", "MinAtar/Breakout-v1", "CartPole-v1"),
        ("probes --observations vector", "Probe-", "CartPole-v1"),
        ("v0 --family gridworlds", "GridWorld-v0", "MiniGrid"),
    ],
)
def test_environments_are_listed_by_what_they_have(words, has, has_not, capsys):
    status, out, _ = say(capsys, "envs", *words.split())
    assert status == 0 and has in out and has_not not in out


def test_a_listing_of_no_environment_says_so(capsys):
    assert "no environment is like that" in refused(capsys, "envs", "--family", "minatar", "--actions", "continuous")
    assert "there is no family 'atari'. There are: bsuite, classic" in refused(capsys, "envs", "--family", "atari")


def test_agents_that_are_settings_of_another_are_described_as_what_they_are(capsys):
    rows = {line.split()[0]: line for line in say(capsys, "agents")[1].splitlines()}
    assert "Advantage actor-critic" in rows["a2c"] and "Proximal policy" in rows["ppo"]
    assert "Sarsa: a table" in rows["sarsa"] and "DQN" not in rows["c51"] and "TD3 with one critic" in rows["ddpg"]


def test_listings_name_everything_and_show_manuals(capsys):
    names = [line.split()[0] for line in say(capsys, "envs", "cartpole")[1].splitlines()[2:]]
    assert names[:3] == ["CartPole-v0", "CartPole-v1", "bsuite/cartpole/0-19"]
    page = say(capsys, "envs", "CartPole-v1")[1]
    assert "cart position, m" in page and "--env.mass-pole" in page
    assert "ppo" in say(capsys, "agents")[1] and "--learning-rate" in say(capsys, "agents", "ppo")[1]


def test_the_doctor_names_devices_and_cache(capsys):
    _, out, _ = say(capsys, "doctor")
    assert f"{len(jax.local_devices())}" and "cpu: cpu" in out and "jaxlib" in out and "cache" in out


@pytest.mark.parametrize("problems", [[], ["this machine has an NVIDIA GPU"]])
def test_the_doctor_ends_with_1_for_a_problem_and_0_for_a_note(problems, capsys, monkeypatch):
    monkeypatch.setattr("shoal.cli.doctor._problems", lambda platform: iter(problems))
    monkeypatch.setattr("shoal.cli.doctor._notes", lambda platform: iter(["of interest"]))
    status, out, _ = say(capsys, "doctor")
    assert status == len(problems) and ("nothing needs attention" in out) == (not problems)
    assert out.endswith("note: of interest\n")
