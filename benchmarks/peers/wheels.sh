#!/bin/sh
# Fill the folder .whl with the packages that a GPU machine without a network lacks. There, before benchmarks/gpu.py:
# python3 -m pip install --no-index --no-deps --target site .whl/*.whl && export PYTHONPATH=$PWD/site
# That machine has Python 3.12 on x86-64 with JAX, flax, optax, orbax, jaxtyping, chex, matplotlib, pillow, rich, pytest.
# PYTHON names any Python that has pip. Packages are fetched without their dependencies, so each is named below.
set -eu
cd "$(dirname "$0")/../.."
WHEELS=${WHEELS:-.whl}
OURS="evosax>=0.3.2 dotmap optuna>=5 alembic mako sqlalchemy greenlet colorlog beartype"
PEERS="gymnax==1.0.1 gymnasium==1.3.0 farama-notifications flashbax>=0.1.3 navix>=4 tyro docstring-parser typeguard
    rlax dm-env distrax>=0.1.9 tfp-nightly decorator gast dm-tree"
platforms=""
for version in _2_28 _2_27 _2_24 _2_17 2014 1; do
    platforms="$platforms --platform manylinux${version}_x86_64"
done

rm -rf "$WHEELS"
mkdir -p "$WHEELS"
# shellcheck disable=SC2086
"${PYTHON:-python3}" -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
    $platforms --dest "$WHEELS" $OURS $PEERS
# NAVIX imports wandb, 25 MB of it, to log its own agents, which are not measured: an empty module takes its place.
"${PYTHON:-python3}" - "$WHEELS" <<'PY'
import sys, zipfile

info, why = "wandb-0.dist-info", '"""Nothing: see benchmarks/peers/wheels.sh."""\n'
files = {
    "wandb/__init__.py": why,
    "wandb/util.py": why,
    f"{info}/METADATA": "Metadata-Version: 2.1\nName: wandb\nVersion: 0\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: shoal\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
with zipfile.ZipFile(f"{sys.argv[1]}/wandb-0-py3-none-any.whl", "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
    wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD")))
PY
du -sh "$WHEELS"
