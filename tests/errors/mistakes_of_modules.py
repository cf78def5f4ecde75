# SPDX-License-Identifier: Apache-2.0
"""Mistakes in a module, and in the arguments of `delegatec.Model`."""

from __future__ import annotations

from typing import Final

import torch
from mistake import HEAD, Mistake, export

_DEEP: Final = (
    HEAD
    + """
class Wrap(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) + 1

def build():
    net = nn.ReLU()
    for _ in range(2000):
        net = Wrap(net)
    return delegatec.Model(net, (torch.zeros(2, 3),))
"""
)

MODULES: Final[tuple[Mistake, ...]] = (
    export(
        "uses a lazy layer",
        "DC119",
        '"l.weight"',
        "call the module once",
        init="self.l = nn.LazyLinear(4)",
        lines=8,
    ),
    export(
        "scripts a layer",
        "DC119",
        '"l" of the module is a TorchScript module',
        init="self.l = torch.jit.script(nn.Linear(3, 3))",
    ),
    export(
        "traces the model with torch.jit",
        "DC119",
        "the module is a TorchScript module",
        arguments="torch.jit.trace(nn.ReLU(), torch.ones(1)), (torch.ones(1),)",
    ),
    export(
        "stores a sparse buffer",
        "DC119",
        "sparse_coo",
        init="self.register_buffer('a', torch.eye(3).to_sparse())",
    ),
    export(
        "computes with sparse tensors",
        "DC119",
        "layout sparse_coo",
        forward="return torch.sparse.mm(x.to_sparse(), x.t())",
    ),
    export(
        "computes with CSR tensors", "DC119", "layout sparse_csr", forward="return x.to_sparse_csr() @ x.t()"
    ),
    export(
        "quantizes with qint8",
        "DC119",
        "qint8",
        forward="return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()",
    ),
    export("returns a string", "DC119", "output 1 is of type str", forward="return x, 'label'"),
    export("returns a dict with a string", "DC119", "'label'", forward="return {'x': x, 'name': 'label'}"),
    export("returns an object of a class", "DC119", "value of type Net", forward="return self"),
    export("returns a dtype", "DC119", "value of type dtype", forward="return x, x.dtype"),
    export("returns a set", "DC119", "value of type set", forward="return {x}"),
    export(
        "returns a generator", "DC119", "value of type generator", forward="return (x + i for i in range(3))"
    ),
    export("calls x.data", "DC111", "x.detach()", forward="return x.data + 1"),
    export(
        "calls a function of numpy",
        "DC111",
        "numpy",
        forward="import numpy\nreturn torch.tensor(numpy.sin(x))",
    ),
    export("formats a tensor", "DC111", "formats the value", forward="return x + len(f'{x.sum():.2f}')"),
    export("nests 2000 modules", "DC111", "more than 400 deep", "nn.Sequential", source=_DEEP),
    export("calls forward from forward", "DC110", "nested too deeply", forward="return self.forward(x)"),
    export(
        "calls cuda() in forward",
        # a build of torch with CUDA traces it
        "DC119" if torch.backends.cuda.is_built() else "DC110",
        "the CPU" if not torch.backends.cuda.is_built() else "on cpu",
        "x.device",
        forward="return x.cuda()",
        recorded=not torch.backends.cuda.is_built(),
    ),
    export("moves to mps in forward", "DC110", "other than the CPU", forward="return x.to('mps')"),
    export(
        "calls backward in forward",
        "DC110",
        "computes gradients",
        forward="y = x.sum()\ny.backward()\nreturn y",
    ),
    export(
        "mixes shapes",
        "DC110",
        "einsum",
        "pkg/net.py:11 in forward",
        forward="return torch.einsum('ij,jk->ik', x, x)",
    ),
    export("misspells an attribute", "DC110", "'relux'", forward="return self.relux(x)"),
    export("raises NotImplementedError", "DC110", "NotImplementedError", forward="raise NotImplementedError"),
    export(
        "allocates too much in forward",
        "DC110",
        "more memory than is available",
        forward="return x + torch.ones(10**15)",
        lines=4,
    ),
    export("exits the process in forward", "DC110", "SystemExit: 0", forward="raise SystemExit(0)"),
    export("ends the process in forward", "DC005", "exit code 0", forward="import os\nos._exit(0)"),
    export(
        "replaces the process in forward",
        "DC005",
        "ended the compiler's process",
        forward="import os\nos.execv('/bin/true', ['true'])",
    ),
    export("crashes native code", "DC008", "SIGSEGV", forward="import ctypes\nctypes.string_at(0)", exit=70),
    export("aborts", "DC008", "SIGABRT", forward="import os\nos.abort()", exit=70),
    export(
        "exceeds the memory of the machine",
        "DC007",
        "SIGKILL",
        forward="import os\nos.kill(os.getpid(), 9)",
        exit=70,
    ),
    export("presses Control-C", "", "delegatec: interrupted", forward="raise KeyboardInterrupt", exit=130),
    export(
        "terminates the compiler",
        "",
        "delegatec: terminated",
        forward="import os\nos.kill(os.getpid(), 15)",
        exit=143,
    ),
    export("branches on several elements", "DC110", "any() or all()", forward="return x if x > 0 else -x"),
    export("reads the memory of a tensor", "DC111", "custom_op", forward="return x + x.data_ptr()"),
    export(
        "reads a scalar inside of vmap",
        "DC110",
        "inside torch.vmap",
        forward="return torch.vmap(lambda y: y.sum().item() * y)(x)",
    ),
    export(
        "computes a constant with torch.func",
        "DC119",
        "torch.func",
        forward="return torch.func.grad(lambda y: y.sum())(x)",
        lines=8,
    ),
    export(
        "replaces the standard streams",
        "DC110",
        "ZeroDivisionError",
        forward="import sys\nsys.stdout = sys.stderr = None\nreturn x + 1 // 0",
    ),
    export("asserts a value", "DC112", "torch._check", forward="assert x.sum() > 0\nreturn x"),
    export(
        "loops until a value is reached",
        "DC112",
        "torch.while_loop",
        forward="while x.sum() < 9:\n    x = x + 1\nreturn x",
    ),
    export(
        "indexes a list by a value",
        "DC112",
        "torch.stack(items)[index]",
        forward="return [x, -x][int(x.argmax())]",
    ),
    export(
        "assigns at an index of the inputs",
        "DC112",
        "index.reshape(1)",
        forward="x = x.clone()\nx[x.argmax()] = 1.0\nreturn x",
    ),
    export(
        "creates a distribution with checks",
        "DC112",
        "validate_args=False",
        forward="return torch.distributions.Normal(x, x).log_prob(x)",
    ),
    export(
        "counts calls in an attribute",
        "DC124",
        "'n'",
        init="self.n = 0",
        forward="self.n += 1\nreturn x + self.n",
    ),
    export(
        "mixes dtypes in a linear layer",
        "DC125",
        "dtype",
        init="self.l = nn.Linear(3, 3).half()",
        forward="return self.l(x)",
    ),
    export(
        "dequantizes three rows with two scales",
        "DC127",
        "scales of shape [2]",
        "shape [3]",
        init="self.w = nn.Buffer(torch.ones(3, 3, dtype=torch.int8))",
        forward="scales, zeros = torch.ones(2), torch.zeros(3, dtype=torch.int64)\n"
        "w = torch.ops.quantized_decomposed.dequantize_per_channel(self.w, scales, zeros, 0, -127, 127, "
        "torch.int8)\nreturn nn.functional.linear(x, w)",
    ),
    export(
        "quantizes by a scale of 0",
        "DC127",
        "has the scale 0.0",
        forward="return torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.0, 0, -127, 127, torch.int8)",
    ),
)

ARGUMENTS: Final[tuple[Mistake, ...]] = (
    export("passes no inputs", "DC108", "example_inputs", "(image,)", arguments="Net()"),
    export("passes a list of inputs", "DC108", "of type list", arguments="Net(), [torch.ones(1)]"),
    export("passes a function", "DC108", "wrap the function", arguments="torch.relu, (torch.ones(1),)"),
    export(
        "passes methods without Method", "DC108", "methods['a']", arguments="Net(), methods={'a': 'forward'}"
    ),
    export(
        "names a method by a number",
        "DC108",
        "methods[1]",
        arguments="Net(), methods={1: delegatec.Method('forward', (torch.ones(1),))}",
    ),
    export(
        "passes a function as a method",
        "DC108",
        "the name of a method",
        arguments="Net(), methods={'a': delegatec.Method(torch.relu, (torch.ones(1),))}",
    ),
    export(
        "passes an array of numpy",
        "DC109",
        "torch.from_numpy",
        arguments="Net(), (__import__('numpy').ones(2),)",
    ),
    export("passes a sparse input", "DC109", "sparse_coo", arguments="Net(), (torch.eye(2).to_sparse(),)"),
    export(
        "passes a float8 input",
        "DC109",
        "float8_e4m3fn",
        arguments="Net(), (torch.ones(2).to(torch.float8_e4m3fn),)",
    ),
    export(
        "passes a number for dynamic_shapes",
        "DC113",
        "has type int",
        arguments="Net(), (torch.ones(2, 3),), dynamic_shapes=3",
    ),
    export(
        "names a dimension that does not exist",
        "DC113",
        "the key 5",
        arguments="Net(), (torch.ones(2, 3),), dynamic_shapes=({5: Dim('b', max=4)},)",
    ),
    export(
        "names a dimension by a string",
        "DC113",
        "the key 'b'",
        arguments="Net(), (torch.ones(2, 3),), dynamic_shapes=({'b': Dim('b', max=4)},)",
    ),
    export(
        "describes too few dimensions",
        "DC113",
        "has 1 item",
        arguments="Net(), (torch.ones(2, 3),), dynamic_shapes=([Dim('b', max=4)],)",
    ),
    export(
        "squeezes a dimension that has size 1 in some calls only",
        "DC205",
        "start the range of the size in dynamic_shapes at 2",
        forward="return x.squeeze()",
        arguments="Net(), (torch.ones(2, 3),), dynamic_shapes=({0: Dim('b', max=4)},)",
    ),
    export(
        "excludes the example from a range",
        "DC113",
        "the range 5 to 8",
        arguments="Net(), (torch.ones(2, 3),), dynamic_shapes=({0: Dim('b', min=5, max=8)},)",
    ),
    export(
        "sets a bound of 2**40",
        "DC114",
        "upper bound 1099511627776",
        arguments="Net(), (torch.ones(2, 3),), dynamic_shapes=({0: Dim('b', max=2**40)},)",
        forward="return x + 1",
    ),
    export(
        "sets no bound, by Dim.AUTO",
        "DC114",
        "no upper bound",
        arguments="Net(), (torch.ones(2, 3),), dynamic_shapes=({0: Dim.AUTO},)",
        forward="return x + 1",
    ),
    export(
        "returns an object from a constant method",
        "DC122",
        "of type object",
        arguments="Net(), (torch.ones(1),), constant_methods={'a': object()}",
    ),
    export(
        "gives a constant method the name of a method",
        "DC122",
        "'forward'",
        arguments="Net(), (torch.ones(1),), constant_methods={'forward': 1}",
    ),
)

TABLE: Final = {"In the module": MODULES, "In the arguments of delegatec.Model": ARGUMENTS}
