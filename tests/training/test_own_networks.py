"""Networks of flax linen, flax nnx and equinox, from docs/networks.md, in runs that are stopped and resumed."""

import importlib
import re
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import shoal
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from tiny import FIELDS, OPTIONS, SILENT

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"


@pytest.fixture
def torso(request, tmp_path, monkeypatch):
    """A torso of the page, from a file beside the run."""
    module, name = request.param
    if module == "with_equinox":
        pytest.importorskip("equinox")
    code = next(
        text for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if f"# {module}.py" in text
    )
    (tmp_path / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    yield getattr(importlib.import_module(module), name)(width=8)
    monkeypatch.delitem(importlib.sys.modules, module)


@pytest.mark.slow
@pytest.mark.parametrize(
    "torso", [("residual", "Residual"), ("normed", "NormedTorso"), ("with_equinox", "EquinoxTorso")], indirect=True
)
def test_a_run_with_an_own_network_resumes_with_the_same_bits(torso, tmp_path):
    sizes = {name: value for name, value in FIELDS.items() if name != "hidden"}
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # as users have it
        agent = shoal.PPO(network=torso, **sizes)
        whole = shoal.train(agent, "CartPole-v1", seeds=2, folder=tmp_path / "a", **OPTIONS, **SILENT)
        assert whole.spec.fields["network"].name == f"{tmp_path / type(torso).__module__}.py:{type(torso).__name__}"
        cut = RunFolder(shutil.copytree(whole.folder, tmp_path / "b"))
        shutil.rmtree(checkpoint.newest(cut.checkpoints))
        (cut.path / "summary.json").unlink()
        shoal.train(resume=cut.path, **SILENT)
    expected, found = (learners(RunFolder(path)) for path in (whole.folder, cut.path))
    assert expected.keys() == found.keys() and any("weights/critic" in name for name in found)
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def learners(folder):
    with np.load(checkpoint.file_of(checkpoint.newest(folder.checkpoints), checkpoint.LEARNERS)) as file:
        return dict(file)
