"""What every run leaves behind about itself."""

from importlib import metadata

import numpy as np
import pytest

import shoal
from shoal.ops.statistics import iqm
from shoal.train.folder import provenance
from shoal.train.records import score_summary


@pytest.fixture
def never_installed(monkeypatch):
    """shoal runs from a folder on PYTHONPATH: no package of that name is installed."""
    version = metadata.version

    def without_shoal(name):
        if name == "shoal":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", without_shoal)


def test_a_package_that_was_never_installed_is_recorded_as_unknown(never_installed):
    packages = provenance(1, 1, [])["packages"]
    assert packages["shoal"] == "unknown" and packages["numpy"] == np.__version__
    assert shoal.__version__ == "unknown"


def test_one_member_has_no_interval_and_two_have():
    alone, both = score_summary(np.array([3.0])), score_summary(np.array([3.0, 5.0]))
    assert alone["iqm"] == 3.0 and np.isnan([alone["iqm_low"], alone["iqm_high"]]).all()
    assert both["iqm"] == iqm(np.array([3.0, 5.0])) and (both["iqm_low"], both["iqm_high"]) == (3.0, 5.0)
