# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the source file of a model."""

from __future__ import annotations

from typing import Final

from mistake import HEAD, Mistake, export, model

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


def _built(statement: str) -> str:
    return f"{HEAD}\ndef build():\n    {statement}\n"


FILES: Final[tuple[Mistake, ...]] = (
    model("not_there", "names a source file that does not exist", "DC101", "pkg/not_there.py does not exist"),
    model("syntax_error", "makes a syntax error", "DC102", "expected ':'"),
    model(
        "undeclared_dependency", "imports a module that is not in deps", "DC103", '"layers_of_another_team"'
    ),
    model("late_dependency", "imports it inside of a function", "DC103", '"layers_of_another_team"', "deps"),
    model("import_raises", "raises an exception in the file", "DC104", "KeyError: 'large'"),
    model("no_entry", "calls the function another name", "DC105", "build_model", "`entry`"),
    model("entry_is_not_callable", "assigns a number to the entry", "DC105", "of type int", "def build()"),
    model("entry_needs_arguments", "gives the entry parameters", "DC105", "'width'", "default values"),
    model("entry_raises", "raises an exception in the entry", "DC106", "RuntimeError", "in _head"),
    model("entry_exits", "calls sys.exit in the entry", "DC106", "SystemExit: no model today"),
    model("not_a_model", "returns the module", "DC107", "of type Linear", "return delegatec.Model"),
    model(
        "wrong_model_arguments",
        "passes the class, a tensor instead of a tuple, and an unknown method",
        "DC108",
        "the class Net",
        "(x,)",
        "methods['encode'].function",
        lines=12,
    ),
    model(
        "wrong_inputs", "passes unsupported inputs", "DC109", "complex64", "type object", "on meta", lines=12
    ),
    model("inputs_do_not_fit", "passes inputs of another shape", "DC110", "1x9 and 8x2"),
    model("wrong_number_of_inputs", "forgets an input", "DC110", "'right'"),
    model("not_traceable", "calls numpy in forward", "DC111", "calls .numpy()", "in forward"),
    model("data_dependent", "branches on values", "DC112", "if x.sum() > 0:", "torch.where"),
    model("data_dependent_size", "loops as often as an input says", "DC112", "torch.while_loop"),
    model("specialized", "declares a size dynamic that the model fixes", "DC113", "constant (2)"),
    model("shapes_of_another_model", "names another argument in dynamic_shapes", "DC113", "['x']", "['y']"),
    model(
        "unbounded", "gives dynamic sizes no bound", "DC114", "dimension 0 of input tokens", "max=", lines=8
    ),
    model("undeclared_data", "loads a file that is not in data", "DC115", '"linear.safetensors"', "`data`"),
    model("missing_data", "declares a data file that does not exist", "DC115", "pkg/missing.pt"),
    model("opens_undeclared_data", "opens a file by its path", "DC115", "delegatec.data_path"),
    model("damaged_checkpoint", "loads a damaged checkpoint", "DC116", "damaged.pt", "save_file"),
    model(
        "wrong_checkpoint",
        "loads the checkpoint of another model",
        "DC117",
        'lacks tensor "2.bias" float32[2]',
        "float16[3]",
        '"extra" float32[1]',
        lines=12,
    ),
    model("training_mode", "applies dropout with training=True", "DC118", "aten.dropout", "self.training"),
    model("weights_on_meta", "keeps weights on meta, or sparse", "DC119", '"scale"', '"table"', lines=8),
    model("holds_a_lowered_program", "exports a module that holds a delegate", "DC119", "lowered program"),
    model("not_storable", "uses flex_attention", "DC119", "flex_attention", "torch cannot serialize"),
    model("two_methods", "makes a mistake in each of two methods", "DC112", "error DC118", lines=12),
)

SOURCES: Final[tuple[Mistake, ...]] = (
    export("writes NUL characters into the file", "DC102", "null bytes", source="x = 1\0\n"),
    export(
        "mixes tabs and spaces", "DC102", "inconsistent use of tabs", source="if 1:\n\tx = 1\n        y = 2\n"
    ),
    export(
        "imports a neighbor that is not in srcs", "DC103", '"pkg.layers"', source="from . import layers\n"
    ),
    export("misspells the compiler's name", "DC103", '"delegate"', source="import delegate\n"),
    export("misspells a name of a library", "DC104", "'Linnear'", source="from torch.nn import Linnear\n"),
    export(
        "uses a function that torch does not have", "DC104", "'sofmax'", source="import torch\ntorch.sofmax\n"
    ),
    export(
        "calls sys.exit while it is imported", "DC104", "SystemExit: 3", source="import sys\nsys.exit(3)\n"
    ),
    export(
        "raises a BaseException",
        "DC104",
        "CancelledError",
        source="import asyncio\nraise asyncio.CancelledError\n",
    ),
    export("leaves the file empty", "DC105", 'no function "build"', source="\n"),
    export("makes the entry a class", "DC105", "a class", source="class build: pass\n"),
    export("makes the entry a coroutine", "DC107", "of type coroutine", source="async def build(): pass\n"),
    export(
        "forgets the return",
        "DC107",
        "of type NoneType",
        source=_built("delegatec.Model(nn.ReLU(), (torch.ones(1),))"),
    ),
    export("returns two values", "DC107", "of type tuple", source=_built("return nn.ReLU(), torch.ones(1)")),
    export("misspells an argument of Model", "DC106", "'inputs'", arguments="Net(), inputs=()"),
    export(
        "fails an assertion", "DC106", "AssertionError", source=_built("assert torch.cuda.is_available()")
    ),
    export(
        "moves the model to a GPU", "DC106", "CUDA", arguments="nn.ReLU().to('cuda'), (torch.ones(1).cuda(),)"
    ),
    export(
        "raises an exception whose text raises",
        "DC106",
        "raises: Sly",
        source="class Sly(Exception):\n    __str__ = None\n\ndef build():\n    raise Sly\n",
    ),
    export(
        "makes a layer of 400 TB",
        "DC106",
        "out of memory",
        "400,000,000,000,000 bytes",
        init="self.w = nn.Linear(10**7, 10**7)",
    ),
    export("makes a list of 8 EB", "DC106", "out of memory", source=_built("return [0] * 10**18")),
    export(
        "names the source torch.py",
        "DC126",
        'hides the module "torch"',
        flags=("--entry=torch:build", "--source=torch.py"),
        files={"torch.py": "import torch\n"},
    ),
    export(
        "names the source types.py",
        "DC126",
        'hides the module "types"',
        flags=("--entry=types:build", "--source=types.py"),
        files={"types.py": "import torch\n"},
    ),
    export(
        "names the source random.py, in a directory of imports",
        "DC126",
        "rename the file",
        flags=("--entry=random:build", "--source=lib/random.py", "--import-path=lib"),
        files={"lib/random.py": ""},
    ),
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
    export("calls cuda() in forward", "DC110", "another device", "x.device", forward="return x.cuda()"),
    export("moves to mps in forward", "DC110", "another device", forward="return x.to('mps')"),
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
        "more memory than there is",
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
        "has 1 items",
        arguments="Net(), (torch.ones(2, 3),), dynamic_shapes=([Dim('b', max=4)],)",
    ),
    export(
        "excludes the example from a range",
        "DC113",
        "2 not in range [5, 8]",
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

TABLE: Final = {
    "In the source file": (*FILES, *SOURCES),
    "In the module": MODULES,
    "In the arguments of delegatec.Model": ARGUMENTS,
}
