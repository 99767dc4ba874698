"""Runs whose members are shared by several processes. Here the others are threads."""

import dataclasses
import json
import shutil
import socket
import threading
from contextlib import suppress

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from checkpoints import arrays_of
from shoal.core.keys import make_key
from shoal.core.struct import struct
from shoal.population.evolve import Evolve
from shoal.population.halving import Halving
from shoal.population.pbt import PBT
from shoal.specs.describe import describe, to_json
from shoal.specs.selector import FRESH, REST, Selector, Turnover
from shoal.specs.spec import RunSpec
from shoal.training import checkpoint, jobs, sharing
from shoal.training.folder import RunFolder
from shoal.training.jobs import Job
from shoal.training.loop import Run
from shoal.training.plan import make_plan
from shoal.training.processes import Group, Peer, read_address
from shoal.training.sharing import RemoteResult, check_same_run, leading, run_follower, share, shares
from shoal.training.stopping import Stopped
from stops import Request, assert_stopped_within_a_record
from tiny import FIELDS

PARTS = (checkpoint.LEARNERS, checkpoint.POLICIES, checkpoint.RUN)
SPEC = RunSpec(
    agent="q-learning",
    env="CliffWalking-v1",
    fields={"num_steps": 32, "snapshots": 2},
    seeds=5,
    steps=6 * 32,
    records=3,
    evaluations=2,
    eval_episodes=2,
    eval_max_steps=10,
)


@struct
class Exchange(Selector):
    """Copies members to other processes, begins a new one, and idles a slot; then changes learning rates only."""

    def ranges(self, agent, env):
        return {"learning_rate": (0.0, 1.0)}

    def select(self, state, standing, key):
        source = [(4, 1, FRESH, 0, REST), (0, 1, 2, 3, REST)][standing.record]
        rates = np.asarray([0.1, 0.2, 0.3, 0.4, 0.5], np.float32) / (1 + standing.record)
        return state, Turnover(np.asarray(source), {"learning_rate": rates}, np.full(5, 7), new_episodes=True)


SOCKETS = []


@pytest.fixture(scope="module", autouse=True)
def _close_sockets():
    yield
    for each in SOCKETS:
        each.close()


def groups(size):
    """The groups of `size` processes, connected with each other."""
    pairs = [socket.socketpair() for _ in range(size - 1)]
    SOCKETS.extend(sum(pairs, ()))
    followers = [Group(n + 1, size, [Peer("process 0", end)]) for n, (_, end) in enumerate(pairs)]
    return [Group(0, size, [Peer(f"process {n + 1}", end) for n, (end, _) in enumerate(pairs)]), *followers]


def in_threads(function, groups):
    """Call `function(group)` for every group in a thread; `join` returns what they returned or raised."""
    found = [None] * len(groups)

    def one(n, group):
        try:
            with jax.numpy_dtype_promotion("standard"):
                found[n] = function(group)
        except Exception as error:
            found[n] = error

    threads = [threading.Thread(target=one, args=pair) for pair in enumerate(groups)]
    for thread in threads:
        thread.start()

    def join():
        for thread in threads:
            thread.join(120)
        return found

    return join


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Train a spec with a number of processes, or resume the run in `folder`.

    Returns (folder, arrays of its last checkpoint, curves, results of the other processes).
    """

    def run(processes, spec=None, folder=None, **options):
        resume, folder = folder is not None, folder or RunFolder(tmp_path_factory.mktemp("run") / "run")
        with jax.numpy_dtype_promotion("standard"):
            plan = make_plan(spec or SPEC, **options)
        first, *others = groups(processes)
        join = in_threads(lambda group: run_follower(Job(SPEC), plan, group), others)
        with jax.numpy_dtype_promotion("standard"), suppress(Stopped), leading(first, folder):
            if not resume:
                folder.create()
            made = Run(plan, folder, group=first)
            made.train(resume=resume)
        arrays = arrays_of(checkpoint.newest(folder.checkpoints), *PARTS)
        return folder, arrays, made.records.arrays(), join()

    return run


def assert_same(found, expected):
    assert found.keys() == expected.keys() and len(found) > 5
    for name in set(found) - {"wall_seconds"}:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.fixture(scope="module")
def exchanged(train):
    """A run with a selector in one process."""
    return train(1, selector=Exchange())


@pytest.mark.sampled
@pytest.mark.parametrize("processes", [3, 2, 5])
def test_turnovers_across_processes_have_the_bits_of_one_process(processes, train, exchanged):
    _, arrays, curves, others = train(processes, selector=Exchange())
    assert_same(arrays, exchanged[1])
    assert_same(curves, exchanged[2])
    assert arrays["run/roster/parent"].tolist() == [4, -1, -1, 0, -1]
    assert [type(other).__name__ for other in others] == ["Result"] * (processes - 1)


@pytest.mark.parametrize("sees", [True, False])
def test_a_process_writes_its_members_itself_where_it_sees_the_folder(sees, train, exchanged, monkeypatch):
    asked, received, send, receive = set(), [], Peer.send, Peer.receive

    def send_elsewhere(peer, head, leaves=()):
        if "folder" in head:
            asked.add(peer)
            head = head if sees else {**head, "folder": "/of/another/machine"}
        send(peer, head, leaves)

    def count_arrays(peer):
        head, leaves = receive(peer)
        if peer in asked:
            asked.remove(peer)
            received.append(len(leaves))
        return head, leaves

    monkeypatch.setattr(Peer, "send", send_elsewhere)
    monkeypatch.setattr(Peer, "receive", count_arrays)
    folder, arrays, _, _ = train(3, selector=Exchange())
    newest = checkpoint.newest(folder.checkpoints)
    names = ["learners-1.npz", "learners-2.npz", "learners.npz", "manifest.json"]
    names += ["policies-1.npz", "policies-2.npz", "policies.npz", "run.npz"]
    assert sorted(path.name for path in newest.iterdir()) == names
    assert_same(arrays, exchanged[1])
    assert len(received) == 2 * 3 and all((arrays == 0) == sees for arrays in received)  # two processes, three records
    assert list(checkpoint.check(newest, folder.spec_hash)["parts"]) == [
        *(f"{part}{process}" for process in ("", "-1", "-2") for part in ("learners", "policies")),
        "run",
    ]


VARY = {"learning_rate": (0.01, 1.0, "log"), "env.step_reward": (-2.0, -0.5)}
OF_SELECTORS = {
    "pbt": (PBT(vary=VARY, quantile=0.4), {"records": 6, "evaluations": 6}),
    "halving": (Halving(vary=VARY, eta=2, refill="fresh"), {"records": 6, "evaluations": 6}),
    "evolve": (
        Evolve(vary=tuple((path, *span) for path, span in VARY.items()), generations=3, seeds=2, every=1, sigma=0.2),
        {"records": 1, "evaluations": 0, "seeds": 8, "env_fields": {"max_steps": 8.0}},
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["evolve", "pbt", "halving"])
def test_a_run_with_a_selector_goes_on_in_another_number_of_processes(name, train):
    selector, changes = OF_SELECTORS[name]
    spec = dataclasses.replace(SPEC, **changes)
    whole = train(1, spec, selector=selector)
    folder, *parts = train(3, spec, selector=selector)
    for found, expected in zip(parts, whole[1:3], strict=False):
        assert_same(found, expected)
    shutil.rmtree(checkpoint.newest(folder.checkpoints))
    _, arrays, curves, _ = train(2, spec, folder, selector=selector)
    assert_same(arrays, whole[1])
    assert_same(curves, whole[2])
    if name == "evolve":
        assert folder.read_json("found.json") == whole[0].read_json("found.json")


@pytest.mark.parametrize("where", [{"processes": 2}, {"processes": 1, "devices": 1, "memory_limit": 2}])
def test_a_run_that_is_stopped_within_a_record_goes_on_elsewhere(where, train, exchanged, monkeypatch):
    request, selector = Request(monkeypatch), Exchange()
    request.at = 3
    folder = train(3, selector=selector)[0]
    assert_stopped_within_a_record(folder.path, 3, records=1)
    monkeypatch.undo()
    if "memory_limit" in where:  # in waves of two members
        where = {**where, "memory_limit": 2 * make_plan(SPEC).member_bytes}
    _, arrays, curves, _ = train(folder=folder, selector=selector, **where)
    assert_same(arrays, exchanged[1])
    assert_same(curves, exchanged[2])


@pytest.mark.slow
@pytest.mark.parametrize("where", [{"block": 2}, {"waves": True}])
def test_a_share_may_have_blocks_and_waves(where, train, monkeypatch):
    options = {}
    if where.pop("waves", False):
        options = {"devices": 1, "memory_limit": 2 * make_plan(SPEC).member_bytes}
    monkeypatch.setattr(f"{__name__}.SPEC", dataclasses.replace(SPEC, **where))
    one, two = (train(processes, selector=Exchange(), **options) for processes in (1, 2))
    assert_same(two[1], one[1])


def test_slots_are_shared_evenly():
    assert [(s.start, s.stop) for s in shares(7, 3)] == [(0, 2), (2, 4), (4, 7)]


def test_a_share_has_waves_that_are_no_larger_than_those_of_the_whole_run():
    plan = dataclasses.replace(make_plan(SPEC), waves=[slice(0, 2), slice(2, 4), slice(4, 5)])
    found = share(plan, Group(1, 2))
    assert found.waves == [slice(0, 2), slice(2, 3)] and found.roster.occupant.tolist() == [2, 3, 4]
    assert found.placement.members == 2


# Errors reach all processes.


def test_an_error_in_process_0_ends_the_others(tmp_path):
    first, other = groups(2)
    join = in_threads(lambda group: run_follower(Job(SPEC), make_plan(SPEC), group), [other])
    with pytest.raises(FileExistsError), leading(first, RunFolder(tmp_path)):
        raise FileExistsError("runs/a already holds a run")
    (error,) = join()
    assert isinstance(error, ConnectionError) and str(error) == "process 0: runs/a already holds a run"


def test_an_error_in_another_process_ends_process_0_and_says_how_to_go_on(tmp_path, monkeypatch):
    def fail(self, clock, updates):
        raise MemoryError("no memory left")

    plan, folder = make_plan(SPEC), RunFolder(tmp_path / "run")
    own = sharing.Population(share(plan, Group(0, 2)), make_key(0))
    monkeypatch.setattr(own, "advance", own.advance)  # process 0 goes on training
    monkeypatch.setattr(sharing.Population, "advance", fail)
    first, other = groups(2)
    join = in_threads(lambda group: run_follower(Job(SPEC), plan, group), [other])
    population = sharing.SharedPopulation(plan, make_key(0), first)
    population.own = own
    folder.create()
    folder.write_json("spec.json", {})
    with jax.numpy_dtype_promotion("standard"), pytest.raises(ConnectionError) as raised, leading(first, folder):
        population.compile()
        population.begin()
        population.advance(0, 1)
    assert str(raised.value).startswith(
        "process 1: MemoryError: no memory left Continue, with any number of processes:"
    )
    assert isinstance(join()[0], MemoryError)


def test_a_process_that_is_gone_is_noticed():
    first, other = groups(2)
    other.peers[0].close()
    with pytest.raises(ConnectionError, match="^process 1 is lost: it has ended, or cannot be reached any more"):
        first.peers[0].receive()
    with pytest.raises(ConnectionError, match="^process 1 is lost"):
        first.peers[0].send({})


def test_a_process_does_only_the_calls_of_a_run():
    with pytest.raises(ValueError, match="'__init__', which is not known"):
        sharing._carry_out(sharing.Population(make_plan(SPEC), make_key(0)), "__init__", [])


# Processes that differ.


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"versions": {"jax": "0.1"}}, r"process 1 has shoal None, process 0 has .*: install the same versions"),
        ({"platform": "gpu"}, "process 1 computes on gpu, process 0 on cpu: set JAX_PLATFORMS"),
        ({"specs": []}, "process 1 was started for 0 runs, process 0 for 1"),
        ({"specs": [dataclasses.replace(SPEC, steps=64).to_json()]}, r"for another run .*\(steps: 192 -> 64\)"),
        ({"specs": [{**SPEC.to_json(), "sources": {"/a.py": "1"}}]}, r"another run .*sources"),
        ({}, ""),
    ],
)
def test_processes_that_differ_are_refused_in_all_of_them(changes, expected, monkeypatch):
    first, other = groups(2)
    send = other.peers[0].send
    monkeypatch.setattr(other.peers[0], "send", lambda head: send({**head, **changes}))
    join = in_threads(lambda group: check_same_run([SPEC], group), [other])
    if not expected:
        check_same_run([SPEC], first)
        assert join() == [None]
        return
    with pytest.raises(ValueError, match=expected) as raised:
        check_same_run([SPEC], first)
    (error,) = join()
    assert isinstance(error, ValueError) and str(error) == str(raised.value)


@pytest.mark.parametrize(
    "size, members, devices, expected",
    [
        (3, 2, 0, "3 processes cannot share 2 members: start at most 2 processes"),
        (2, 1, 0, "2 processes cannot share 1 member: start at most 1 process, "),
        (2, 2, 1, "devices=1 is for a run of one process: each of the 2 processes"),
    ],
)
def test_a_run_that_the_processes_cannot_share_is_refused(size, members, devices, expected):
    with pytest.raises(ValueError, match=expected):
        Group(0, size).refuse(members, devices)
    Group(0, 1).refuse(members, devices)


# Other runs that a run names.


@pytest.fixture
def read_in_process_0(monkeypatch):
    """Each thread has a group of its own, `here.group`, and only that of process 0 can read the files of a run."""
    here, read = threading.local(), RunFolder.read_json

    def read_json(folder, name):
        if here.group.number:
            raise FileNotFoundError(f"{folder.path} is on another machine")
        return read(folder, name)

    monkeypatch.setattr(jobs, "group", lambda: here.group)
    monkeypatch.setattr(RunFolder, "read_json", read_json)
    return here


@pytest.fixture
def finding(result, tmp_path):
    """A run with two seeds whose selector would have found a learning rate."""
    folder = shutil.copytree(result.folder, tmp_path / "finding")
    (folder / "found.json").write_text(json.dumps({"learning_rate": to_json(describe(0.01))}))
    return folder


@pytest.mark.parametrize("option", ["found", "init", "spec"])
def test_only_process_0_reads_the_runs_that_a_run_names(option, finding, read_in_process_0):
    def spec_of(group):
        read_in_process_0.group = group
        if option == "spec":
            job = jobs.job_from_spec(finding)
        else:
            job = jobs.make_job("ppo", "CartPole-v1", fields=FIELDS, preset=None, seeds=2, **{option: finding})
        job.plan()
        return job.spec

    first, second = groups(2)
    join = in_threads(spec_of, [second])
    spec = spec_of(first)
    assert join() == [spec]
    named = {"found": spec.fields.get("learning_rate"), "init": spec.init.get("run"), "spec": spec.seeds}
    assert named[option] == {"found": 0.01, "init": str(finding), "spec": 2}[option]


def test_a_run_that_process_0_cannot_read_is_refused_in_all_processes(tmp_path, read_in_process_0):
    def found_by(group):
        read_in_process_0.group = group
        return jobs.found_by(tmp_path / "none")

    first, second = groups(2)
    join = in_threads(found_by, [second])
    with pytest.raises(FileNotFoundError, match="none is not a run folder: it does not exist") as raised:
        found_by(first)
    (error,) = join()
    assert isinstance(error, ValueError) and str(error) == str(raised.value)


@pytest.mark.parametrize("number", [0, 1])
def test_processes_of_which_one_names_a_run_are_refused(number):
    pair = groups(2)
    join = in_threads(lambda group: check_same_run([SPEC], group), [pair[1 - number]])
    with pytest.raises(
        ValueError, match="process 1 was started for another run than process 0.* all processes"
    ) as raised:
        pair[number].shared("what runs/x has found", lambda: {})
    (error,) = join()
    assert isinstance(error, ValueError) and str(error) == str(raised.value)


# Messages and addresses.


def test_arrays_and_keys_arrive_as_they_were_sent():
    first, other = groups(2)
    keys = [make_key(3), jax.random.split(make_key(4, "threefry2x32"), 2)]
    arrays = [np.float32(0.5), np.zeros((2, 0)), jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3)[:, ::2], np.True_]
    first.peers[0].send({"call": "x"}, [*arrays, *keys])
    head, found = other.peers[0].receive()
    assert head == {"call": "x"} and len(found) == 6
    for before, after in zip([*arrays, *keys], found, strict=True):
        assert after.shape == before.shape and after.dtype == before.dtype
    for before, after in zip(arrays, found, strict=False):
        np.testing.assert_array_equal(after, np.asarray(before))
    for before, after in zip(keys, found[4:], strict=True):
        np.testing.assert_array_equal(jax.random.key_data(after), jax.random.key_data(before))


def test_an_address_is_read():
    assert read_address("auto") == {}
    assert read_address("node7:9700,4,3") == {
        "coordinator_address": "node7:9700",
        "num_processes": 4,
        "process_id": 3,
        "cluster_detection_method": "deactivate",
    }
    assert read_address("127.0.0.1:9700,2,0")["coordinator_bind_address"] == "127.0.0.1:9700"


@pytest.mark.parametrize("text", ["", "node7", "node7:1", ":9700,2,0", "node7:x,2,0", "node7:9700,2", "node7:1,2,-1"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="is not an address: use `auto` in a job of SLURM"):
        read_address(text)


def test_a_number_beyond_the_processes_is_refused():
    with pytest.raises(ValueError, match="2 processes have the numbers 0 to 1"):
        read_address("node7:9700,2,2")


def test_a_result_that_is_elsewhere_says_where(tmp_path):
    found = sharing._result(str(tmp_path / "run"), Job(SPEC), groups(2)[1].peers[0])
    assert isinstance(found, RemoteResult)
    with pytest.raises(FileNotFoundError, match="run was written by process 0, and this process cannot read it"):
        found.summary.clear()
