# SPDX-License-Identifier: Apache-2.0
"""Where a model comes from, and the Python that builds it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.scaffold import transformers_models

_KINDS: Final = ("module", "pt2", "timm", "transformers")
_DTYPES: Final = ("bool", "float16", "float32", "float64", "int32", "int64", "uint8")
_INPUT: Final = re.compile(rf"({'|'.join(_DTYPES)})\[((?:\d+(?:,\d+)*)?)\]")
# Names that stay as they are in a string of Python or Starlark.
_PLAIN: Final = re.compile(r"\w[\w.\-]*")
_CLASS: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_OWN_WEIGHTS: Final = (
    'For your weights: `data = ["weights.safetensors"]` in the BUILD file, and '
    '`delegatec.load_checkpoint(module, "weights.safetensors")` in the model.'
)


@dataclass(frozen=True)
class ModelSource:
    """What the files of a model are made of.

    Attributes:
        title: what the model is, a sentence without the full stop.
        name: a name for its targets.
        imports: import statements besides those of torch and delegatec.
        body: lines of the function `build`, up to the variable `module`.
        inputs: Python expressions of the example inputs; None for the variable `inputs` of `body`.
        result: what `forward` of a wrapper returns, of its `network`; empty without a wrapper.
        arguments: names of the arguments of the wrapper.
        deps: labels of the model's dependencies.
        data: files of the model, relative to its directory.
        weight_bytes: size of its weights in float32; 0 if it is unknown.
        next_steps: what the user does besides, a sentence each.
    """

    title: str
    name: str
    imports: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    inputs: tuple[str, ...] | None = ()
    result: str = ""
    arguments: tuple[str, ...] = ()
    deps: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    weight_bytes: int = 0
    next_steps: tuple[str, ...] = ()


def source_of(model: str, inputs: Sequence[str]) -> ModelSource:
    """Returns how a model is built.

    Args:
        model: `transformers:CLASS` or `transformers:TYPE`, `timm:NAME`, `module:PACKAGE.MODULE:CLASS`, or
            `pt2:FILE`, the last one with a file of `torch.export.save` in the directory of the new package.
        inputs: example inputs of a `module:`, such as `float32[1,3,224,224]`.

    Raises:
        DelegatecError: DC001, no such model, or other inputs than it needs.
    """
    kind, _, name = model.partition(":")
    if kind not in _KINDS or not name:
        expected = "transformers:MobileBertModel, timm:resnet18, module:my.layers:Net or pt2:net.pt2"
        raise _wrong(f"{model!r} is not a model", expected)
    if inputs and kind != "module":
        raise _wrong(f"--input does not apply to {kind}:, whose inputs are known", "no --input")
    if kind == "transformers":
        return _of_transformers(name)
    if kind == "timm":
        return _of_timm(name)
    return _of_module(name, inputs) if kind == "module" else _of_pt2(name)


def _of_transformers(name: str) -> ModelSource:
    found = transformers_models.find(name)
    if isinstance(found, transformers_models.Refusal):
        raise _wrong(found.problem, found.expected, found.help)
    main = found.argument
    return ModelSource(
        title=f"{found.model} of transformers with its default configuration and random weights",
        name=_identifier(found.model_type),
        imports=(f"from transformers import {found.config}, {found.model}",),
        body=(f"config = {found.config}()", f"module = {found.model}(config)"),
        inputs=(found.input,),
        result=f"self.network({main}={main}, return_dict=False)[0]",
        arguments=(main,),
        deps=("@rules_delegate//wheels:transformers",),
        weight_bytes=found.weight_bytes,
        next_steps=(_OWN_WEIGHTS,),
    )


def _of_timm(name: str) -> ModelSource:
    if not _PLAIN.fullmatch(name):
        raise _wrong(f"{name!r} is not a model of timm", "a name of timm.list_models(), such as resnet18")
    return ModelSource(
        title=f"timm's {name} with random weights",
        name=_identifier(name),
        imports=("import timm",),
        body=(
            f"module = timm.create_model({name!r}, pretrained=False)",
            'size = module.pretrained_cfg["input_size"]',
        ),
        inputs=("torch.rand(1, *size)",),
        deps=("@rules_delegate//wheels:timm",),
        next_steps=(_OWN_WEIGHTS,),
    )


def _of_module(name: str, inputs: Sequence[str]) -> ModelSource:
    if not _CLASS.fullmatch(name):
        raise _wrong(f"{name!r} is not a class of a Python module", "module:PACKAGE.MODULE:CLASS")
    if not inputs:
        raise _wrong(
            f"the example inputs of {name} are unknown",
            "an --input for each argument of forward, such as --input=float32[1,3,224,224]",
        )
    wrong = [each for each in inputs if not _INPUT.fullmatch(each)]
    if wrong:
        raise _wrong(
            f"{', '.join(wrong)}: not an input", f"DTYPE[SIZE,...], DTYPE one of {', '.join(_DTYPES)}"
        )
    module, _, cls = name.partition(":")
    package = "/".join(module.split(".")[:-1])
    return ModelSource(
        title=f"{cls} of {module}",
        name=_identifier(cls),
        imports=(f"from {module} import {cls}",),
        body=(f"module = {cls}()",),
        inputs=tuple(_expression(each) for each in inputs),
        deps=(f"//{package}:{module.rpartition('.')[2]}",),
        next_steps=(f"`deps` guesses the py_library of {module}: name the right one.",),
    )


def _of_pt2(name: str) -> ModelSource:
    if not _PLAIN.fullmatch(name) or not name.endswith(".pt2"):
        raise _wrong(f"{name!r} is not a .pt2 in the new package", "pt2:FILE.pt2, in --directory")
    return ModelSource(
        title=f"The program in {name}, of torch.export.save",
        name=_identifier(name.removesuffix(".pt2")),
        body=(
            f"program = torch.export.load(delegatec.data_path({name!r}))",
            "module = program.module(check_guards=False)",
            "assert program.example_inputs is not None",
            "inputs, keywords = program.example_inputs",
        ),
        inputs=None,
        data=(name,),
        next_steps=(
            "Sizes that are dynamic in the .pt2 need `dynamic_shapes` in the model: docs/models.md.",
        ),
    )


def _expression(text: str) -> str:
    match = _INPUT.fullmatch(text)
    assert match is not None
    dtype, sizes = match[1], tuple(int(each) for each in match[2].split(",") if each)
    if dtype.startswith("float"):
        return f"torch.rand({sizes})" if dtype == "float32" else f"torch.rand({sizes}, dtype=torch.{dtype})"
    return f"torch.ones({sizes}, dtype=torch.{dtype})"


def _identifier(name: str) -> str:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.rpartition(":")[2])
    return re.sub(r"\W+", "_", spaced).strip("_").lower() or "model"


def _wrong(problem: str, expected: str, help_: str = "") -> DelegatecError:
    return DelegatecError([Diagnostic("DC001", problem, expected=expected, help=help_)])
