# SPDX-License-Identifier: Apache-2.0
"""Mistakes of the authors of backends and runtimes."""

from __future__ import annotations

import textwrap
from typing import Final

from mistake import Mistake, lower, plugin, run

_NPU: Final = ("--backend=npu:BACKEND", "--import-path=.")
_TEXT: Final = """class Text(ComputedBytes):
    __len__ = lambda self: 1
    __getitem__ = lambda self, index: "a"
return PreprocessResult([Text()])"""
_CUT: Final = "return Partitioning(DelegationSpec('NpuBackend'), {})"


def _partition(body: str) -> str:
    """Returns the source of `partitioner`, from the body of `partition`."""
    text = "def partitioner(self, specs):\n    class Mine(SupportsAllBut):\n"
    text += "        def partition(self, program):\n"
    return f"{text}{textwrap.indent(body, ' ' * 12)}\n    return Mine(backend_id=self.id)"


def module(does: str, code: str, *words: str, text: str, **more: object) -> Mistake:
    """The source of a plug-in."""
    return lower(does, code, *words, flags=_NPU, files={"npu.py": text}, **more)


MODULES: Final[tuple[Mistake, ...]] = (
    module("makes a syntax error", "DC403", "SyntaxError", "npu.py:1", text="class Npu\n"),
    module("imports a missing module", "DC403", "no module named 'npu_sdk'", text="import npu_sdk\n"),
    module(
        "raises an exception",
        "DC403",
        "KeyError: 'NPU_HOME'",
        "npu.py:2",
        text="import os\nos.environ['NPU_HOME']\n",
    ),
    module("exits", "DC403", "SystemExit: 0", text="import sys\nsys.exit(0)\n"),
    module("misspells the attribute", "DC403", "did you mean 'BACKENDS'?", text="BACKENDS = 1\n"),
    module(
        "leaves the attribute empty", "DC403", "'BACKEND' of module 'npu' is None", text="BACKEND = None\n"
    ),
    module("names a class", "DC403", "BACKEND()", text="class BACKEND: pass\n"),
    module(
        "forgets the base class", "DC403", "is a Npu, which is not", text="class Npu: pass\nBACKEND = Npu()\n"
    ),
    module(
        "forgets a member",
        "DC403",
        "abstract class Npu",
        "npu.py:5",
        text="from delegatec.delegation import Backend\n"
        "class Npu(Backend):\n"
        "    partitioner = preprocess = print\n\n"
        "BACKEND = Npu()\n",
        recorded=False,  # Python's text, which depends on its version
    ),
    plugin(
        "takes the name of another backend", "DC403", "'mps' is already registered", source="name = 'mps'"
    ),
    plugin(
        "takes the id of another backend",
        "DC403",
        "'MPSBackend'",
        source="def __init__(self):\n    super().__init__('MPSBackend')",
    ),
    plugin("names the backend portable", "DC403", "its name is 'portable'", source="name = 'portable'"),
    plugin("writes a dot in the name", "DC403", "its name is 'npu.v2'", source="name = 'npu.v2'"),
    plugin("names the backend by a number", "DC403", "its name is 5", source="name = 5"),
)

MEMBERS: Final[tuple[Mistake, ...]] = (
    plugin(
        "raises in options",
        "DC410",
        "'Npu' object has no attribute 'all'",
        source="@property\ndef options(self):\n    return self.all",
    ),
    plugin("declares options by strings", "DC411", "a dict of str", source="options = {'a': 'b'}"),
    plugin(
        "returns specs as strings",
        "DC411",
        "a list of str",
        source="def compile_specs(self, options):\n    return ['fast']",
    ),
    plugin(
        "preserves operators by name",
        "DC411",
        "a list of str",
        source="def preserved_operators(self):\n    return ['aten.silu']",
    ),
    plugin(
        "preserves one operator",
        "DC411",
        "returned a OpOverload",
        source="def preserved_operators(self):\n    return torch.ops.aten.silu.default",
    ),
    plugin(
        "returns the name of a partitioner",
        "DC411",
        "partitioner of backend",
        source="def partitioner(self, specs):\n    return 'mine'",
    ),
    plugin(
        "fails in the partitioner",
        "DC410",
        "ZeroDivisionError",
        "npu.py:",
        source=_partition("1 // 0"),
    ),
    plugin("returns groups alone", "DC404", "returned a list", source=_partition("return []")),
    plugin("groups names", "DC410", "AttributeError", source=_partition(_CUT.format("[['a']]"))),
    plugin(
        "groups a node twice",
        "DC404",
        "two groups",
        source=_partition("n = [*program.graph.nodes][3:4]\n" + _CUT.format("[n, n]")),
    ),
    plugin(
        "rejects by a string",
        "DC404",
        "a rejection",
        source=_partition(_CUT.format("[], ['too small']")),
    ),
    plugin(
        "names no backend",
        "DC404",
        "DelegationSpec",
        source=_partition("return Partitioning('NpuBackend')"),
    ),
    plugin(
        "edits the program",
        "DC404",
        "edited the program",
        source=_partition(
            "n = [*program.graph.nodes][-2]\n"
            "n.target = torch.ops.aten.cos.default\n"
            "return super().partition(program)"
        ),
    ),
    plugin(
        "returns the id of another backend",
        "DC401",
        "'GpuBackend'",
        source=_partition("return Partitioning(DelegationSpec('GpuBackend'), [[*program.graph.nodes][3:4]])"),
    ),
    plugin(
        "returns integers as passes",
        "DC411",
        "passes of backend",
        source="def passes(self, view, specs):\n    return [5]",
    ),
    plugin(
        "fails in a pass",
        "DC410",
        "a pass of backend",
        source="def passes(self, view, specs):\n    return [lambda program: program.nodes]",
    ),
    plugin(
        "returns bytes from preprocess",
        "DC411",
        "returned bytes",
        preprocess="return b''",
    ),
    plugin(
        "returns nothing from preprocess",
        "DC411",
        "returned None",
        preprocess="pass",
    ),
    plugin(
        "returns a blob that is not in a list",
        "DC411",
        "whose blob is bytes",
        preprocess="return PreprocessResult(b'')",
    ),
    plugin(
        "stores named data as bytes",
        "DC411",
        "a dict of bytes",
        preprocess="return PreprocessResult([b''], named_data={'a': b''})",
    ),
    plugin(
        "stores named data as a string",
        "DC410",
        "named data is a str",
        preprocess="return PreprocessResult([b''], named_data={'a': NamedData('a')})",
    ),
    plugin(
        "maps unknown handles",
        "DC421",
        "not handles of nodes",
        preprocess="return PreprocessResult([b''], debug_handle_map={0: (999,)})",
    ),
    plugin(
        "maps no handle",
        "DC420",
        "no debug handle",
        preprocess="DelegateMappingBuilder(True).insert_delegate_mapping_entry(handles=[])",
    ),
    plugin(
        "computes a string instead of bytes",
        "DC411",
        "a str",
        preprocess=_TEXT,
    ),
    plugin(
        "runs out of memory",
        "DC410",
        "out of memory",
        preprocess="raise MemoryError",
    ),
    plugin(
        "ends the process",
        "DC005",
        "exit code 3",
        preprocess="import os\nos._exit(3)",
    ),
    plugin(
        "fails in the reference",
        "DC410",
        "reference of backend",
        verb="verify",
        source="def reference(self, blob, specs):\n    raise KeyError('op 3')",
    ),
)

_RUNTIME: Final = """class Npu:
    name, backends = "npu-sim 2.0", ()
    def load(self, pte, ptd, shares_state):
        {}
RUNTIME = Npu()
"""
_PROGRAM: Final = "return type('Program', (), {{'run': lambda self, method, inputs: {}}})()"


def runtime(does: str, code: str, *words: str, text: str) -> Mistake:
    """The source of a runtime plug-in."""
    flags = "--samples-file= --seeds=0 --runtime=npu:RUNTIME --import-path=."
    command = f"verify --program=good.pt2 --pte=good.pte {flags}"
    return run(does, code, *words, command=command, files={"npu.py": text})


RUNTIMES: Final[tuple[Mistake, ...]] = (
    runtime("forgets the runtime", "DC516", "did you mean 'RUNTIMES'?", text="RUNTIMES = []\n"),
    runtime("forgets its wheel", "DC516", "no module named 'npu_sdk'", text="import npu_sdk\n"),
    runtime("names a class as a runtime", "DC516", "RUNTIME = RUNTIME()", text="class RUNTIME: pass\n"),
    runtime("forgets members of a runtime", "DC516", "it lacks name, backends", text="RUNTIME = open\n"),
    runtime(
        "gives one backend for several",
        "DC516",
        "list their ids",
        text=_RUNTIME.replace("()\n", "'NpuBackend'\n", 1).format("return None"),
    ),
    runtime(
        "rejects the program",
        "DC501",
        "cannot load the program: ValueError: 0x14",
        text=_RUNTIME.format("raise ValueError('0x14')"),
    ),
    runtime("loads nothing", "DC505", "has no attribute 'run'", text=_RUNTIME.format("return None")),
    runtime(
        "fails at run time",
        "DC505",
        "npu-sim 2.0 fails in method 'forward'",
        text=_RUNTIME.format(_PROGRAM.format("1 // 0")),
    ),
    runtime(
        "returns too many outputs",
        "DC505",
        "1, as in the file",
        text=_RUNTIME.format(_PROGRAM.format("[*inputs, *inputs]")),
    ),
    runtime(
        "returns a list for a tensor",
        "DC503",
        "is list; eager mode returns float32[2, 3]",
        text=_RUNTIME.format(_PROGRAM.format("[[1.0]]")),
    ),
)

TABLE: Final = {
    "In the module of a backend": MODULES,
    "In the members of a backend": MEMBERS,
    "In a runtime": RUNTIMES,
}
