"""Write a program as an ONNX model. Its loops must have been written repetition by repetition."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shoal.core.errors import need
from shoal.portable.program import Program, Step, Unportable, Value
from shoal.portable.python_code import constant_names

OPSET, IR_VERSION = 18, 8  # of 2022: ONNX Runtime 1.14 and everything newer reads them
NODES = {  # operations that are one node
    **{"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "max": "Max", "min": "Min"},
    **{"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "matmul": "MatMul"},
    **{"neg": "Neg", "exp": "Exp", "log": "Log", "tanh": "Tanh", "sin": "Sin", "cos": "Cos", "tan": "Tan"},
    **{"asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "sqrt": "Sqrt", "abs": "Abs"},
    **{"sign": "Sign", "floor": "Floor", "ceil": "Ceil", "erf": "Erf", "not": "Not", "logistic": "Sigmoid"},
    **{"relu": "Relu", "where": "Where"},
}
BITWISE = {"and": "And", "or": "Or", "xor": "Xor"}
REDUCTIONS = {"sum": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
END = np.iinfo(np.int64).max


def onnx_model(program: Program, names: Sequence[str], title: str) -> bytes:
    """The model of a program, serialized; `names` are those of the outputs. Raises Unportable, which names the part.

    Raises ImportError without the package `onnx`.
    """
    onnx = need("onnx", "export", "format='onnx'")
    graph = _Graph(program, onnx)
    for step in program.steps:
        graph.write(step)
    for value, name in zip(program.outputs, names, strict=True):
        graph.nodes.append(onnx.helper.make_node("Identity", [graph.name_of(value)], [name]))
    inputs = [graph.described(value, value.name) for value in program.inputs]
    outputs = [graph.described(value, name) for value, name in zip(program.outputs, names, strict=True)]
    made = onnx.helper.make_graph(graph.nodes, "policy", inputs, outputs, graph.initializers, doc_string=title)
    opset = onnx.helper.make_opsetid("", OPSET)
    model = onnx.helper.make_model(made, opset_imports=[opset], ir_version=IR_VERSION, producer_name="shoal")
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


class _Graph:
    def __init__(self, program: Program, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.names = {id(value): value.name for value in program.inputs}
        self.constants = constant_names(program)
        self.written: set[str] = set()

    def write(self, step: Any) -> None:
        if not isinstance(step, Step):
            raise Unportable(f"a loop of {step.length} repetitions")
        write = getattr(self, f"_{step.operation}", None)
        inputs = [self.name_of(value) for value in step.inputs]
        if step.operation in NODES:
            name = self.node(NODES[step.operation], *inputs)
        elif write is not None:
            name = write(step, *inputs)
        else:
            raise Unportable(step.operation)
        self.names[id(step.output)] = name

    def name_of(self, value: Value) -> str:
        """The name of a value; a constant is written where it is first read."""
        if not value.is_constant:
            return self.names[id(value)]
        name = self.constants[id(value)]
        if name not in self.written:
            self.written.add(name)
            self.initializers.append(self.onnx.numpy_helper.from_array(np.array(value.data, value.dtype), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Write one node and return the name of its result."""
        name = f"x{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def numbers(self, numbers: Any, dtype: Any = np.int64) -> str:
        """Write a constant that no weight is, such as a shape, and return its name."""
        name = f"numbers{len(self.initializers)}"
        self.initializers.append(self.onnx.numpy_helper.from_array(np.asarray(numbers, dtype), name))
        return name

    def described(self, value: Value, name: str) -> Any:
        """The declaration of an input or output."""
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
        return self.onnx.helper.make_tensor_value_info(name, kind, value.shape)

    def cast(self, name: str, dtype: Any) -> str:
        return self.node("Cast", name, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    # One method for each operation that is no single node. `step` has its options.

    def _ne(self, step: Step, x: str, y: str) -> str:
        return self.node("Not", self.node("Equal", x, y))

    def _and(self, step: Step, x: str, y: str) -> str:
        kind = BITWISE[step.operation]
        return self.node(kind if step.output.dtype == bool else f"Bitwise{kind}", x, y)

    _or = _xor = _and

    def _log1p(self, step: Step, x: str) -> str:
        return self.node("Log", self.node("Add", x, self.numbers(1, step.output.dtype)))

    def _expm1(self, step: Step, x: str) -> str:
        return self.node("Sub", self.node("Exp", x), self.numbers(1, step.output.dtype))

    def _atan2(self, step: Step, y: str, x: str) -> str:
        zero, sign = self.numbers(0, step.output.dtype), self.node("Sign", y)
        half, whole = (self.numbers(angle, step.output.dtype) for angle in (np.pi / 2, np.pi))
        slope = self.node("Atan", self.node("Div", y, x))
        side = self.node("Where", self.node("Less", y, zero), self.node("Neg", whole), whole)
        turned = self.node("Where", self.node("Less", x, zero), self.node("Add", slope, side), slope)
        return self.node("Where", self.node("Equal", x, zero), self.node("Mul", sign, half), turned)

    def _is_finite(self, step: Step, x: str) -> str:
        return self.node("Not", self.node("Or", self.node("IsInf", x), self.node("IsNaN", x)))

    def _rem(self, step: Step, x: str, y: str) -> str:
        return self.node("Mod", x, y, fmod=1)

    def _cast(self, step: Step, x: str) -> str:
        return self.cast(x, step.output.dtype)

    def _reshape(self, step: Step, x: str) -> str:
        return self.node("Reshape", x, self.numbers(step.options["shape"]))

    def _transpose(self, step: Step, x: str) -> str:
        return self.node("Transpose", x, perm=step.options["axes"])

    def _broadcast(self, step: Step, x: str) -> str:
        return self.node("Expand", x, self.numbers(step.options["shape"]))

    def _flip(self, step: Step, x: str) -> str:
        axes = step.options["axes"]
        parts = ([-1] * len(axes), [-END] * len(axes), axes, [-1] * len(axes))
        return self.node("Slice", x, *map(self.numbers, parts))

    def _slice(self, step: Step, x: str) -> str:
        starts, stops, strides = zip(*step.options["slices"], strict=True)
        return self.node("Slice", x, *map(self.numbers, (starts, stops, range(len(starts)), strides)))

    def _dynamic_slice(self, step: Step, x: str, *starts: str) -> str:
        sizes, shape = step.options["sizes"], step.inputs[0].shape
        axis = self.numbers([0])
        parts = [self.node("Unsqueeze", self.cast(start, np.int64), axis) for start in starts]
        spare = self.numbers([n - size for n, size in zip(shape, sizes, strict=True)])
        first = self.node("Max", self.node("Min", self.node("Concat", *parts, axis=0), spare), self.numbers([0]))
        last = self.node("Add", first, self.numbers(sizes))
        return self.node("Slice", x, first, last, self.numbers(range(len(sizes))))

    def _pad(self, step: Step, x: str) -> str:
        low, high = zip(*step.options["widths"], strict=True)
        return self.node("Pad", x, self.numbers([*low, *high]), self.numbers(step.options["value"], step.output.dtype))

    def _concatenate(self, step: Step, *inputs: str) -> str:
        return self.node("Concat", *inputs, axis=step.options["axis"])

    def _reduce_sum(self, step: Step, x: str) -> str:
        kind = REDUCTIONS[step.operation.removeprefix("reduce_")]
        return self.node(kind, x, self.numbers(step.options["axes"]), keepdims=0)

    _reduce_max = _reduce_min = _reduce_prod = _reduce_sum

    def _reduce_and(self, step: Step, x: str) -> str:
        kind = "ReduceMin" if step.operation == "reduce_and" else "ReduceMax"
        found = self.node(kind, self.cast(x, np.int32), self.numbers(step.options["axes"]), keepdims=0)
        return self.cast(found, bool)

    _reduce_or = _reduce_and

    def _argmax(self, step: Step, x: str) -> str:
        kind = {"argmax": "ArgMax", "argmin": "ArgMin"}[step.operation]
        return self.cast(self.node(kind, x, axis=step.options["axis"], keepdims=0), step.output.dtype)

    _argmin = _argmax

    def _cumsum(self, step: Step, x: str) -> str:
        return self.node("CumSum", x, self.numbers(step.options["axis"]))

    def _rows(self, step: Step, table: str, index: str) -> str:
        return self.node("Gather", table, self.cast(index, np.int64), axis=0)

    def _elements(self, step: Step, table: str, indices: str) -> str:
        return self.node("GatherND", table, self.cast(indices, np.int64))

    def _convolution(self, step: Step, images: str, kernel: str) -> str:
        low, high = zip(*step.options["padding"], strict=True)
        names: Mapping[str, Any] = {"strides": step.options["strides"], "dilations": step.options["dilation"]}
        return self.node("Conv", images, kernel, pads=[*low, *high], group=step.options["groups"], **names)
