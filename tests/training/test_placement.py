"""Placement of members: blocks on a CPU, and a mesh of devices with padding."""

import jax
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.training.placement import SMALLEST_BLOCK, Placement, key_words, make_placement


@pytest.mark.parametrize(("members", "devices", "padded"), [(1, 1, 1), (3, 3, 3), (5, 4, 8), (17, 4, 20)])
def test_members_that_fill_a_mesh_up_are_dropped(members, devices, padded):
    mesh = make_placement(members, on_mesh=True)
    assert (mesh.mesh.size, mesh.padded) == (devices, padded)
    rows = {"number": np.arange(members), "key": jax.random.split(make_key(0), members)}
    (part,) = mesh.spread(rows)
    assert part["number"].tolist() == [*range(members), *[members - 1] * (padded - members)]
    assert [len(shard.data) for shard in part["number"].addressable_shards] == [padded // devices] * devices

    def gathered(parts):
        found = mesh.gather(parts, members)
        np.testing.assert_array_equal(key_words(found["key"]), key_words(rows["key"])[found["number"]])
        return found["number"]

    assert gathered([part]).tolist() == list(range(members))
    source = np.arange(members)[::-1].copy()  # every member but the middle one comes from another device
    swapped = mesh.exchange([part], source)
    assert swapped[0]["number"].sharding == part["number"].sharding
    assert gathered(swapped).tolist() == source.tolist()
    is_new = source % 2 == 0
    assert gathered(mesh.merge([part], swapped, is_new)).tolist() == np.where(is_new, source, source[::-1]).tolist()


def test_a_wave_with_fewer_calls_than_the_largest_one_is_merged():
    placement = Placement(5, 2, 1)  # of the largest wave; another one has two members, in one call
    old, new, is_new = np.arange(2), np.arange(10, 12), np.asarray([False, True])
    merged = placement.merge(placement.spread(old), placement.spread(new), is_new)
    assert placement.gather(merged, 2).tolist() == [0, 11]


@pytest.mark.usefixtures("two_cores")
def test_members_per_call_are_of_large_populations_and_on_a_cpu_only():
    def block(members, **options):
        return make_placement(members, devices=2, members_per_call=100, **options).block

    assert [block(m) for m in (1, 30, 2 * SMALLEST_BLOCK - 2)] == [1, 1, 1]
    assert [block(m) for m in (2 * SMALLEST_BLOCK, 199, 200, 5000)] == [SMALLEST_BLOCK, 100, 100, 100]
    assert block(5000, block=3) == 3 and block(5000, on_mesh=True) == 5000
