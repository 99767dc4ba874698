#!/bin/sh
# Create .venv-peers: the libraries that shoal is measured against, with shoal itself installed beside them.
# Needs Python 3.12 (JAX 0.11.2 and gymnax 1.0.1 do). Run again it only checks; PYTHON and VENV may be given.
set -eu
cd "$(dirname "$0")/../.."
VENV=${VENV:-.venv-peers}

find_python() {
    for candidate in ${PYTHON:-} python3.12 "$HOME"/.pyenv/versions/3.12*/bin/python python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "The peers need Python 3.12, which is not on PATH. Install it, or run: PYTHON=/path/to/python3.12 make peers" >&2
    return 1
}

stamp=$(cat benchmarks/peers/requirements.txt benchmarks/peers/setup.sh pyproject.toml | cksum)
if [ "$(cat "$VENV/.peers-stamp" 2>/dev/null)" = "$stamp" ]; then
    echo "$VENV is up to date."
    exit 0
fi
python=$(find_python)
echo "Making $VENV with $($python --version)"
[ -x "$VENV/bin/python" ] || "$python" -m venv "$VENV"
"$VENV/bin/python" -m pip install --quiet --upgrade pip
# torch comes first: TORCH_INDEX, the address of PyTorch's CPU-only wheels, saves gigabytes where no GPU is used.
"$VENV/bin/python" -c 'import torch' 2>/dev/null ||
    "$VENV/bin/python" -m pip install --quiet torch ${TORCH_INDEX:+--index-url "$TORCH_INDEX"}
"$VENV/bin/python" -m pip install --quiet -r benchmarks/peers/requirements.txt
"$VENV/bin/python" -m pip install --quiet --no-deps -e .
echo "$stamp" > "$VENV/.peers-stamp"
echo "$VENV is ready. Compare with: $VENV/bin/python benchmarks/run.py classic"
