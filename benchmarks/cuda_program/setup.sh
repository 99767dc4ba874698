#!/bin/sh
# Create .venv-gpu-program: shoal with the JAX that compiles for CUDA, for a machine that needs no GPU.
# Needs Python 3.12 (JAX 0.11.2 does). Run again it only checks; PYTHON and VENV may be given.
set -eu
cd "$(dirname "$0")/../.."
VENV=${VENV:-.venv-gpu-program}
FOLDER=benchmarks/cuda_program

find_python() {
    for candidate in ${PYTHON:-} python3.12 "$HOME"/.pyenv/versions/3.12*/bin/python python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "This needs Python 3.12, which is not on PATH. Install it, or run: make gpu-program PYTHON=/path/to/python3.12" >&2
    return 1
}

stamp=$(cat $FOLDER/requirements.txt $FOLDER/compiler.txt $FOLDER/setup.sh pyproject.toml | cksum)
if [ "$(cat "$VENV/.stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi
python=$(find_python)
echo "Making $VENV with $($python --version)"
[ -x "$VENV/bin/python" ] || "$python" -m venv "$VENV"
"$VENV/bin/python" -m pip install --quiet -r $FOLDER/requirements.txt
"$VENV/bin/python" -m pip install --quiet --no-deps -r $FOLDER/compiler.txt
"$VENV/bin/python" -m pip install --quiet --no-deps -e .
echo "$stamp" > "$VENV/.stamp"
echo "$VENV is ready. Look at one program with: $VENV/bin/python benchmarks/gpu_program.py env CartPole-v1"
