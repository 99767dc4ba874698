"""Workers as actors of Ray, on a cluster of several nodes, which Ray's own test cluster starts on this machine."""

import os
import signal
import socket
import sys
import threading
import time

import jax
import pytest

from shoal.studies.ray_workers import RayWorker, RayWorkers, _Watch
from shoal.studies.trial_states import trials_of
from shoal.studies.tune import tune

PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
SHOW = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['WORD'], os.environ.get('JAX_PLATFORMS'))"
STOPS = (
    "import signal, sys, time\n"
    "signal.signal(signal.SIGINT, lambda *_: (print('saved'), sys.exit(130)))\n"
    "print('ready', flush=True)\n"
    "time.sleep(100)"
)


def node_options():
    """Ports that Ray then need not wait for: its nodes give up where a busy machine starts their agents slowly."""
    sockets = [socket.create_server(("", 0)) for _ in PORTS]
    ports = {name: each.getsockname()[1] for name, each in zip(PORTS, sockets, strict=True)}
    for each in sockets:
        each.close()
    return {**ports, "object_store_memory": 80 * 2**20, "include_log_monitor": False}


@pytest.fixture(scope="module")
def nodes():
    """A cluster, and two nodes with a CPU and a GPU each. The GPUs are only Ray's numbers."""
    pytest.importorskip("ray", reason="the package ray is not installed: pip install 'shoal[ray]'")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, **node_options()}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    yield cluster, [cluster.add_node(num_cpus=1, num_gpus=1, **node_options()) for _ in range(2)]
    cluster.shutdown()


def command(program):
    return ["python", "-c", program]


def when(is_ready, then):
    """Call `then` in a thread as soon as `is_ready` returns True, or after 200 seconds."""

    def wait():
        end = time.monotonic() + 200
        while time.monotonic() < end and not is_ready():
            time.sleep(0.1)
        then()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")
def test_output_statuses_and_gpus_of_workers_on_two_nodes(nodes, tmp_path):
    said = []
    workers = RayWorkers(nodes[0].address, gpus=1)
    statuses = workers.run({f"w{i}": command(SHOW) for i in range(3)}, tmp_path, said.append, {"WORD": "word"})
    failed = workers.run({"w0": command("import sys; sys.exit(3)")}, tmp_path, said.append)
    workers.close()
    assert {*statuses.values()} == {0} and failed == {"w0": 3}
    # The third begins when a node is free again, or not at all, because a worker has finished the study.
    shown = f"0 word {os.environ.get('JAX_PLATFORMS')}"
    assert sum(line == f"[{name}] {shown}" for name in statuses for line in said) >= 2
    first_two = [line for line in said if "node" in line][:2]
    assert len({line.split("node ")[1] for line in first_two}) == 2
    assert "worker w0 ended with exit status 3; no other worker is left" in said
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")
def test_ctrl_c_reaches_workers_on_all_nodes(nodes, tmp_path):
    files, said = [tmp_path / name / "output.txt" for name in ("w0", "w1", "w2")], []
    workers = RayWorkers(nodes[0].address)
    thread = when(
        lambda: sum(f.exists() and f.read_text() != "" for f in files) == 2, lambda: os.kill(os.getpid(), signal.SIGINT)
    )
    statuses = workers.run({f"w{i}": command(STOPS) for i in range(3)}, tmp_path, said.append)
    thread.join()
    workers.close()
    assert statuses == {"w0": 130, "w1": 130, "w2": 130}
    # One of the three had no place.
    assert [sum(word in line for line in said) for word in ("saved", "is on")] == [2, 2]


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(600)
def test_a_study_ends_though_a_node_is_removed(nodes, tmp_path, capsys, monkeypatch):
    """Last, because it removes a node: that of the first worker that has run trials, long before the study ends."""
    cluster, _ = nodes
    placed = {}
    begin = _Watch._start

    def note(watch, name, host, node):
        placed[tmp_path / "shared" / "workers" / name / "slots.csv"] = node
        begin(watch, name, host, node)

    monkeypatch.setattr(_Watch, "_start", note)

    def has_run():
        return [node for path, node in [*placed.items()] if path.exists()]

    def remove():
        [node] = [node for node in cluster.list_all_nodes() if node.node_id == has_run()[0]]
        cluster.remove_node(node, allow_graceful=False)

    removed = when(has_run, remove)
    options = {
        "parallel": 2,
        "seeds": 1,
        "records": 4,
        "sampler": "random",
        "pruner": "none",
        "fields": {"num_steps": 32},
    }
    with jax.numpy_dtype_promotion("standard"):
        result = tune(
            "q-learning",
            "Blackjack-v1",
            search={"learning_rate": None},
            trials=40,
            steps=4 * 32 * 4000,
            root=tmp_path,
            name="shared",
            workers=2,
            ray=cluster.address,
            grace=5,
            fresh_seeds=0,
            figures=False,
            **options,
        )
    removed.join()
    said = capsys.readouterr().err
    assert "was lost, because its actor or node" in said
    trials = [trial for trial in trials_of(result.study) if trial.state.name == "COMPLETE"]
    assert len(trials) == 40 == len({trial.params["learning_rate"] for trial in trials})
    assert any("retry_of" in trial.user_attrs for trial in trials)


def test_a_node_that_does_not_see_the_folder_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("shoal.studies.ray_workers.SEEN_SECONDS", 0.1)
    arguments = (command(SHOW), str(tmp_path / "w0"), str(tmp_path / "missing"), str(tmp_path), {}, range(1), 0)
    assert "does not see the folder" in RayWorker().start(*arguments)
    assert not (tmp_path / "w0").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
def test_a_process_on_a_node_uses_its_cores_and_the_processor(tmp_path, monkeypatch):
    monkeypatch.delenv("JAX_PLATFORMS")
    proof, process = tmp_path / "proof", RayWorker()
    proof.touch()
    show = "import os; print(sorted(os.sched_getaffinity(0)), os.environ['JAX_PLATFORMS'])"
    assert process.start(command(show), str(tmp_path / "w0"), str(proof), str(tmp_path), {}, range(1), 0) == ""
    process.process.wait()
    assert process.news() == ([f"{sorted(os.sched_getaffinity(0))[:1]} cpu"], 0)


def test_what_cannot_work_is_refused(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
    with monkeypatch.context() as context:
        context.setitem(sys.modules, "ray", None)
        with pytest.raises(ImportError, match=r"--ray needs the package 'ray'.*pip install 'shoal\[ray\]'"):
            RayWorkers()
    for arguments, message in (
        (("ray://there:1",), "give `auto`, or the address of the cluster as in --ray 10.0.0.1:6379"),
        (("auto", 0), "--worker-cpus 0: a worker needs at least 1"),
        (("auto", 1, 1.5), "--worker-gpus 1.5: give 0, a part of a GPU"),
    ):
        with pytest.raises(ValueError, match=message):
            RayWorkers(*arguments)
    for options, message in (
        ({"ray": "auto", "storage": "memory"}, "storage that all of them see"),
        ({"worker_gpus": 1}, "are for workers on a cluster"),
    ):
        with pytest.raises(ValueError, match=message):
            tune("q-learning", "Blackjack-v1", root=tmp_path, **options)
    assert not list(tmp_path.iterdir())
    pytest.importorskip("ray", reason="the package ray is not installed: pip install 'shoal[ray]'")
    with pytest.raises(ValueError, match=f"--ray {nobody}: no cluster of Ray can be used there .*refused"):
        RayWorkers(nobody)
