"""The text of `policy.py`: a class `Policy` that calls a trained policy, and the function `act` of one format."""

from collections.abc import Sequence
from typing import NamedTuple

from shoal.portable.program import Value
from shoal.portable.python_code import Code

NEEDS = {
    "numpy": "NumPy 1.20 or newer",
    "torch": "torch 2.0 or newer",
    "onnx": "NumPy and ONNX Runtime 1.14 or newer",
    "jax": "JAX with flatbuffers",
}


class Part(NamedTuple):
    """One array of an observation: its place in nested dicts and tuples, and its dtype and shape."""

    path: tuple
    value: Value


class Interface(NamedTuple):
    """The arrays that a policy reads and returns."""

    observation: tuple[Part, ...]
    carry: tuple[Value, ...]
    mask: Value | None
    action: Value


def policy_file(kind: str, title: str, interface: Interface, code: Code | None = None) -> str:
    """The text of `policy.py` for a format of `NEEDS`. `code` computes the action, where the format is code."""
    library = "torch" if kind == "torch" else "numpy"
    mask = ", mask" if interface.mask else ""
    head = f'''"""{title}

Written by shoal. It needs {NEEDS[kind]}, and no shoal.

    from policy import Policy

    policy = Policy()
    policy.reset()                      # where an episode begins
    action = policy(observation{mask})
"""
'''
    parts = [(part.path, part.value.dtype.name, part.value.shape) for part in interface.observation]
    carry = [(value.dtype.name, value.shape) for value in interface.carry]
    mask_size = interface.mask.shape[0] if interface.mask else 0
    arrays = f"""
OBSERVATION = [  # its arrays: where in it, dtype, shape
{_rows(parts)}]
CARRY = [  # what it remembers between two steps: dtype, shape
{_rows(carry)}]
MASK = {mask_size}  # entries of the action mask; 0: it takes none
ACTION = {(interface.action.dtype.name, interface.action.shape)}  # dtype, shape
"""
    arrays = arrays.replace("[  # what it remembers between two steps: dtype, shape\n]", "[]  # it remembers nothing")
    body = {"onnx": ONNX, "jax": JAX}[kind] if code is None else _act(code, interface, library)
    imports = {"numpy": NUMPY_IMPORTS, "torch": TORCH_IMPORTS, "onnx": ONNX_IMPORTS, "jax": JAX_IMPORTS}[kind]
    helpers = "".join(f"\n\n{helper.strip()}\n" for helper in code.helpers) if code else ""
    math = "import math\n" if "math." in helpers else ""
    load = {"numpy": NUMPY_LOAD, "torch": TORCH_LOAD}.get(kind, "")
    fit = TORCH_FIT if library == "torch" else NUMPY_FIT
    return f"{head}{math}{imports}{arrays}\n\n{POLICY}\n{fit}{load}{body}{helpers}"


def _rows(rows: Sequence[tuple]) -> str:
    return "".join(f"    {row},\n" for row in rows)


def variables(interface: Interface) -> list[str]:
    """The variables of `act` that hold the arrays: of the observation, of the carry, and the mask."""
    ends = ["_".join(map(str, part.path)) for part in interface.observation]
    own = [f"obs_{end}" if end.isidentifier() or end.isdecimal() else f"obs_{i}" for i, end in enumerate(ends)]
    observation = own if len({*own}) == len(own) > 1 else [f"obs_{i}" for i in range(len(own))]
    memory = [f"memory_{i}" for i in range(len(interface.carry))]
    return [*(observation if len(own) > 1 else ["obs"]), *memory, *["mask"] * bool(interface.mask)]


def _act(code: Code, interface: Interface, library: str) -> str:
    names, parts = variables(interface), len(interface.observation)
    lines = "".join(f"        {line}\n" for line in code.lines)
    unpacked = f"{_target(names[:parts])} = observation"
    if interface.carry:
        carry = names[parts : parts + len(interface.carry)]
        unpacked += f"\n    {_target(carry)} = carry"
    action, *after = code.results
    quiet = 'np.errstate(all="ignore")' if library == "numpy" else "torch.no_grad()"
    return f'''

def act(w, observation, carry, mask):
    """Return (action, next carry). `w` are the weights by name. Beside each line stands the shape of its result."""
    {unpacked}
    with {quiet}:
{lines}        return {action}, [{", ".join(after)}]
'''


def _target(names: Sequence[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


NUMPY_IMPORTS = "from pathlib import Path\n\nimport numpy as np\n"
TORCH_IMPORTS = "import ast\nimport zipfile\nfrom pathlib import Path\n\nimport torch\n"
ONNX_IMPORTS = "from pathlib import Path\n\nimport numpy as np\nimport onnxruntime\n"
JAX_IMPORTS = "from pathlib import Path\n\nimport jax\nimport jax.export\nimport numpy as np\n"

POLICY = '''class Policy:
    """The trained policy. `carry` is what it remembers between two steps of an episode."""

    def __init__(self, folder=None):
        """Read the weights from the folder of this file, or from another one."""
        self.weights = load(Path(__file__).parent if folder is None else Path(folder))
        self.reset()

    def reset(self):
        """Forget the steps so far. Call it where an episode begins."""
        self.carry = [zeros(*each) for each in CARRY]

    def __call__(self, observation, mask=None):
        """Return the action for one observation. `mask` says which actions are allowed, if the policy takes one."""
        if (mask is None) == bool(MASK):
            raise ValueError("this policy needs the action mask: policy(observation, mask)." if MASK else
                             "this policy takes no action mask.")
        parts = []
        for path, dtype, shape in OBSERVATION:
            part = observation
            for place in path:
                part = part[place]
            parts.append(fit(part, dtype, shape, "".join(["observation", *(f"[{place!r}]" for place in path)])))
        mask = fit(mask, "bool", (MASK,), "mask") if MASK else None
        action, self.carry = act(self.weights, parts, self.carry, mask)
        return fit(action, *ACTION, "action")
'''

NUMPY_FIT = '''
def zeros(dtype, shape):
    return np.zeros(shape, dtype)


def fit(array, dtype, shape, name):
    """Return an array in its dtype. Raises ValueError for another shape, and for fractions instead of integers."""
    array = np.asarray(array)
    if array.shape != shape:
        raise ValueError(f"{name} has the shape {array.shape}, not {shape}: give one {name} at a time.")
    if array.dtype.kind == "f" and np.dtype(dtype).kind != "f":
        raise ValueError(f"{name} is of {array.dtype}, not {dtype}.")
    if array.dtype.kind in "iu" and (array.astype(dtype) != array).any():
        raise ValueError(f"{name} has a number that {dtype} does not hold.")
    return array.astype(dtype)
'''
TORCH_FIT = '''
def zeros(dtype, shape):
    return torch.zeros(shape, dtype=getattr(torch, dtype))


def fit(array, dtype, shape, name):
    """Return a tensor in its dtype. Raises ValueError for another shape, and for fractions instead of integers."""
    array, dtype = array if torch.is_tensor(array) else torch.tensor(array), getattr(torch, dtype)
    if tuple(array.shape) != shape:
        raise ValueError(f"{name} has the shape {tuple(array.shape)}, not {shape}: give one {name} at a time.")
    if array.is_floating_point() and not dtype.is_floating_point:
        raise ValueError(f"{name} is of {array.dtype}, not {dtype}.")
    if not array.is_floating_point() and (array.to(dtype) != array).any():
        raise ValueError(f"{name} has a number that {dtype} does not hold.")
    return array.to(dtype)
'''
NUMPY_LOAD = '''

def load(folder):
    """Return the weights by name."""
    with np.load(folder / "weights.npz") as file:
        return {name: file[name] for name in file.files}
'''
TORCH_LOAD = '''

def load(folder):
    """Return the weights by name. An .npz file is a zip of .npy files: a header, which is a dict, and the elements."""
    dtypes = {"<f2": torch.float16, "<f4": torch.float32, "|b1": torch.bool, "|u1": torch.uint8, "|i1": torch.int8}
    dtypes |= {"<i2": torch.int16, "<i4": torch.int32, "<i8": torch.int64, "<u2": torch.uint16, "<u4": torch.uint32}
    weights = {}
    with zipfile.ZipFile(folder / "weights.npz") as file:
        for name in file.namelist():
            data = file.read(name)
            start = 10 + int.from_bytes(data[8:10], "little")
            header = ast.literal_eval(data[10:start].decode("latin1"))
            array = torch.frombuffer(bytearray(data[start:]), dtype=dtypes[header["descr"]])
            weights[name[: -len(".npy")]] = array.reshape(header["shape"])
    return weights
'''
ONNX = '''

def load(folder):
    """Return a session of ONNX Runtime with one thread: a small network is slower with more."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(folder / "policy.onnx"), options, providers=["CPUExecutionProvider"])


def act(session, observation, carry, mask):
    """Return (action, next carry)."""
    arrays = [*observation, *carry] + [mask] * bool(MASK)
    inputs = {each.name: array for each, array in zip(session.get_inputs(), arrays)}
    action, *carry = session.run(None, inputs)
    return action, carry
'''
JAX = '''

def load(folder):
    """Return (the compiled program, the weights by name)."""
    program = jax.export.deserialize(bytearray((folder / "policy.jax").read_bytes()))
    with np.load(folder / "weights.npz") as file:
        return jax.jit(program.call), {name: file[name] for name in file.files}


def act(weights, observation, carry, mask):
    """Return (action, next carry)."""
    program, weights = weights
    action, *carry = program(weights, [*observation, *carry] + [mask] * bool(MASK))
    return action, carry
'''
