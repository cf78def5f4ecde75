# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the source file of a model."""

from __future__ import annotations

from typing import Final

import torch
from mistake import HEAD, Mistake, export, model


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
    model("no_entry", "calls the function another name", "DC105", "build_model", "the entry"),
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
    model("specialized", "declares a size dynamic that the model fixes", "DC113", "fixes batch at 2"),
    model("shapes_of_another_model", "names another argument in dynamic_shapes", "DC113", "'x'", "'y'"),
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
    model("not_storable", "uses flex_attention", "DC119", "flex_attention", "does not support it"),
    model("two_methods", "makes a mistake in each of two methods", "DC112", "error DC118", lines=12),
)

SOURCES: Final[tuple[Mistake, ...]] = (
    export("writes NUL characters into the file", "DC102", "null bytes", source="x = 1\0\n"),
    export(
        "mixes tabs and spaces", "DC102", "inconsistent use of tabs", source="if 1:\n\tx = 1\n        y = 2\n"
    ),
    export("imports a module that is not in srcs", "DC103", '"pkg.layers"', source="from . import layers\n"),
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
        "returns None",
        source=_built("delegatec.Model(nn.ReLU(), (torch.ones(1),))"),
    ),
    export("returns two values", "DC107", "of type tuple", source=_built("return nn.ReLU(), torch.ones(1)")),
    export("misspells an argument of Model", "DC106", "'inputs'", arguments="Net(), inputs=()"),
    export(
        "fails an assertion", "DC106", "AssertionError", source=_built("assert torch.cuda.is_available()")
    ),
    export(
        "moves the model to a GPU",
        "DC106",
        "CUDA",
        "on the CPU",
        arguments="nn.ReLU().to('cuda'), (torch.ones(1).cuda(),)",
        recorded=not torch.backends.cuda.is_built(),
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

TABLE: Final = {"In the source file": (*FILES, *SOURCES)}
