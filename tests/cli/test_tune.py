"""`shoal tune`: what its options become, its mistakes before anything compiles, and a study from start to resume."""

import json
from types import SimpleNamespace

import pytest

import shoal
from commands import refused, say
from shoal.cli.parser import Line
from shoal.cli.tune import _queue, _reader, _search, read_space_file, report, tune_parser


def line_of(*words):
    parser = tune_parser()
    return parser.finish(parser.start(list(words)))


def test_search_reads_ranges_and_values_of_any_field():
    texts = ["learning_rate=log(1e-4,1e-1)", "env.gravity=5..15", "clip", "hidden=64,64|128", "optimizer=adam|rmsprop"]
    texts += ["num_envs=4,8", "shared=true,false", "clip=0.1|0.2"]
    words = [word for text in texts[:-1] for word in ("--search", text)]
    assert _search(line_of("ppo", "CartPole-v1", *words)) == {
        "learning_rate": (1e-4, 1e-1, "log"),
        "env.gravity": (5, 15),
        "clip": None,
        "hidden": ((64, 64), (128,), "choice"),
        "optimizer": ("adam", "rmsprop", "choice"),
        "num_envs": (4, 8, "choice"),
        "shared": (True, False, "choice"),
    }
    line = line_of("dqn", "CartPole-v1", "--search", "optimizer=adam|sgd")  # a number in the program
    assert _search(line) == {"optimizer": ("adam", "sgd", "choice")}
    assert _search(line_of("ppo", "CartPole-v1")) is None


def test_a_space_file_has_the_same_forms(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text(
        'learning_rate = "log(1e-4,1e-1)"\nclip = true\nhidden = [[64, 64], [128]]\n[env]\ngravity = "5..15"\n'
    )
    space = read_space_file(str(path), _reader(Line(None, named={"agent": "ppo", "env": "CartPole-v1"})))
    assert space == {
        "learning_rate": (1e-4, 1e-1, "log"),
        "clip": None,
        "hidden": [[64, 64], [128]],
        "env.gravity": (5, 15),
    }


@pytest.mark.parametrize("size", ["trials", "parallel", "seeds", "steps", "records"])
def test_sizes_of_a_study_that_are_absurd_are_refused_in_words(size, tmp_path):
    with pytest.raises(ValueError, match=f"{size}=a number of more than 40 digits does not fit in 64 bits"):
        shoal.tune("ppo", "CartPole-v1", root=tmp_path, **{size: 10**5_000})


@pytest.mark.parametrize("value", ["[" * 9_999 + "]" * 9_999, "9" * 5_000, "\x00"], ids=["nested", "long", "NUL"])
def test_files_that_python_cannot_read_are_refused_in_words(value, tmp_path):
    (space := tmp_path / "space.toml").write_text(f"clip = {value}")
    with pytest.raises(ValueError, match=r"space.toml is no TOML file: .*"):
        read_space_file(str(space), _reader(Line(None, named={"agent": "ppo", "env": "CartPole-v1"})))
    (queue := tmp_path / "queue.json").write_text(value)
    with pytest.raises(ValueError, match=r"queue.json is no JSON file: .*|must hold a list of trials"):
        _queue(str(queue))


MISTAKES = {
    "tune": "tune needs an agent and an environment, as in `shoal tune ppo CartPole-v1`",
    "tune ppo CartPole-v1 --search learning_rat": "no field 'learning_rat'. Did you mean learning_rate?",
    "tune ppo CartPole-v1 --search env.gravit=5..15": "no field 'gravit'. Did you mean gravity?",
    "tune ppo CartPole-v1 --search hidden=64,64": "hidden needs at least two values to search",
    "tune ppo CartPole-v1 --search clip=0.2..0.2": "clip has one value, 0.2",
    "tune ppo CartPole-v1 --search clip=-1..0.2": "clip cannot vary from -1 to 0.2",
    "tune ppo CartPole-v1 --search num_envs=0.5..2": "num_envs shapes the program, so it needs a list of values",
    "tune ppo CartPole-v1 --search activation=tanh|rel": "activation='rel' is unknown. Choose one of tanh",
    "tune ppo CartPole-v1 --clip 0.1 --search clip": "clip is searched, and has a value too",
    "tune ppo CartPole-v1 --clip 0.1,0.2": "search it instead, as in --search clip=A|B",
    "tune ppo CartPole-v1 --sampler tpee": "sampler 'tpee' is not registered. Did you mean tpe?",
    "tune ppo CartPole-v1 --pruner hyperbnd": "pruner 'hyperbnd' is not registered. Did you mean hyperband?",
    "tune ppo CartPole-v1 --sampler bohb --pruner median": "sampler=bohb is tpe with the pruner hyperband",
    "tune ppo CartPole-v1 --pruner hyperband(et=2)": "the pruner hyperband has no option 'et'. Did you mean eta?",
    "tune ppo CartPole-v1 --pruner halving(min_resource=4)": "needs at least 12 records of each trial, and there are 9",
    "tune ppo CartPole-v1 --sampler none.py:make": "none.py does not exist: write the path of a Python file",
    "tune ppo CartPole-v1 --importance fanov": "importance 'fanov' is not registered. Did you mean fanova?",
    "tune ppo CartPole-v1 --dry-run --records 2": "the pruner hyperband needs at least 3 records",
    "tune ppo CartPole-v1 --dry-run --workers 0": "--workers 0: give 1 to",
    "tune ppo CartPole-v1 --dry-run --workers 2 --storage memory": "several workers need a storage that all of them",
    "tune ppo CartPole-v1 --dry-run --grace 0": "grace=0.0 must be a number of seconds above 0",
    "tune ppo CartPole-v1 --dry-run --ray nowhere": "--ray nowhere: give `auto`, or the address of the cluster",
    "tune ppo CartPole-v1 --dry-run --ray --worker-cpus 0": "--worker-cpus 0: a worker needs at least 1",
    "tune ppo CartPole-v1 --dry-run --ray --worker-gpus 1.5": "--worker-gpus 1.5: give 0, a part of a GPU",
    "tune ppo CartPole-v1 --dry-run --worker-gpus 1": "worker_cpus and worker_gpus are for workers on a cluster",
    "tune ppo CartPole-v1 --records 2": "the pruner hyperband needs at least 3 records",
    "tune ppo CartPole-v1 --score q200": "score='q200' is unknown",
    "tune ppo CartPole-v1 --parallel 0": "parallel=0 must be at least 1",
    "tune ppo CartPole-v1 --evaluations 3": "use evaluations=0 or evaluations=9",
    "tune ppo CartPole-v1 --search num_steps=13..40": "28 program shapes, each of which compiles once: num_steps",
    "tune ppo CartPole-v1 --steps 1000": "1,000 steps are 2 updates of 512, too few for 9 records: use at least 4,608",
    "tune ppo CartPole-v1 --sampler cmaes --search clip": "cmaes needs at least two ranges of numbers",
    "tune ppo CartPole-v1 --storage sqlit:x --steps 4608": "Did you mean sqlite:",
    "tune ppo CartPole-v1 --trils 3": "Did you mean --trials?",
    "tune ppo CartPole-v1 --track mflow": "'mflow' is not registered. Did you mean mlflow?",
    "tune ppo CartPole-v1 --tag a=1": "--tag is for an experiment tracker: add --track",
    "tune ppo CartPole-v1 --track mlflow --track-children members": "a study has 'trials' or 'none'",
    "tune --resume runs/none": "runs/none is not the folder of a study: it does not exist",
    "tune --resume runs/none --seeds 3": "runs/none is not the folder of a study",
    "tune --resume runs/none --search clip": "--search is for a new study",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_end_in_one_sentence(words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert MISTAKES[words] in refused(capsys, *words.split())
    assert not [*(tmp_path / "runs").glob("*")]


@pytest.mark.parametrize(
    "share, words", [(0.875, "slots busy 88% of the time until the last trial began, "), (None, "")]
)
def test_the_share_of_busy_slots_is_left_out_if_all_trials_begin_at_once(share, words):
    worker = {"seconds": 22.0, "busy_until_last": share, "training": 0.12}
    summary = {"trials": {"complete": 4}, "best": None, "workers": {"w0": worker}}
    lines = report(SimpleNamespace(summary=summary, folder="runs/x")).splitlines()
    assert lines == ["trials: 4 complete", f"w0: 22 s, {words}12% of the time training", "runs/x"]


def test_trials_to_enqueue_must_be_in_the_search(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    command = ["tune", "ppo", "CartPole-v1", "--search", "clip", "--steps", "4608", "--enqueue", "first.json"]
    for trial, message in (
        ([{"clip": 0.1}, {"clip": 0.9}], "trial 2 of the queue (--enqueue): clip=0.9 is not a number from 0.05 to 0.5"),
        ([{"clp": 0.2}], "the study does not search 'clp'. Did you mean clip?"),
        (3, "must hold a list of trials"),
    ):
        (tmp_path / "first.json").write_text(json.dumps(trial))
        assert message in refused(capsys, *command)
    (tmp_path / "first.json").write_text("[{")
    assert "first.json is no JSON file" in refused(capsys, *command)


def test_a_dry_run_says_what_would_be_trained_and_writes_nothing(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shoal.studies.worker.open_study", None)  # no storage is asked
    (tmp_path / "first.json").write_text('[{"learning_rate": 0.5}]')
    words = "tune q-learning Blackjack-v1 --search learning_rate --search count_visits=true|false --search discount "
    words += "--num-steps 32 --steps 270 --seeds 2 --records 3 --trials 10 --parallel 3 --enqueue first.json --dry-run"
    words += " --workers 2"
    status, out, err = say(capsys, *words.split())
    assert status == 0, err
    lines = {line[2:14].strip(): line[14:] for line in out.splitlines()[2:]}
    assert out.startswith("dry run: a study with 2 programs; nothing was compiled or written\n\n")
    assert "  search      learning_rate: 0.01 to 1.0, log\n" in out and "  search      count_visits: " in out
    # 270 steps are rounded up to 3 records of 3 updates of 32 steps; 10 trials of 2 members of 288 steps are 5,760.
    assert lines["trials"] == "10 x 2 seed(s) x 288 steps in 3 records, at most 5,760 steps; 3 at a time"
    assert lines["sampler"] == "tpe, after 1 trial(s) of the queue" and lines["pruner"] == "hyperband"
    assert lines["group-0"].startswith("count_visits=") and "3 trial(s) = 6 members at a time" in lines["group-1"]
    assert lines["workers"] == "2 on this machine; each has the programs below"
    assert lines["storage"] == "journal:runs/q-learning-Blackjack-v1-study/study.log"
    assert lines["time"].startswith("at most, without pruning: unknown: there is no earlier run of q-learning")
    assert {*tmp_path.iterdir()} == {tmp_path / "first.json"}


def test_a_study_from_start_to_resume(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    tiny = "--num-steps 32 --steps 288 --seeds 1 --name small --sampler random --pruner none --records 3"
    tiny += " --evaluations 3 --eval-episodes 2 --eval-max-steps 10"
    words = f"tune q-learning CliffWalking-v1 --trials 3 --parallel 2 --search learning_rate {tiny}"
    status, out, err = say(capsys, *words.split())
    assert status == 0 and "trials: 3 complete" in out and "best: trial " in out and "learning_rate=" in out
    assert "3 trials of 1 seed x 288 steps, 2 at a time" in err and "3/3 trials" in err
    assert "already holds a study. Continue it with `shoal tune --resume runs/small`" in refused(capsys, *words.split())
    message = refused(capsys, "tune", "--resume", "runs/small", "--seeds", "3")
    assert "seeds=3 is for a new study; resume continues runs/small as it is" in message
    assert "has 3 trials: give trials=3 or more" in refused(capsys, "tune", "--resume", "runs/small", "--trials", "2")
    status, out, _ = say(capsys, "tune", "--resume", "runs/small", "--trials", "4", "--dry-run")
    assert status == 0 and "4 x 1 seed(s) x 288 steps in 3 records" in out
    status, out, _ = say(capsys, "tune", "--resume", "runs/small", "--trials", "5", "--no-progress")
    assert status == 0 and "trials: 5 complete" in out
    spec = json.loads((tmp_path / "runs" / "small" / "study.json").read_text())
    assert spec["trials"] == 5 and spec["search"] == {"learning_rate": {"low": 0.01, "high": 1.0, "scale": "log"}}
