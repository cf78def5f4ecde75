# SPDX-License-Identifier: Apache-2.0
"""Every argument of every public function, with every kind of wrong value: accepted, or a DelegatecError."""

from __future__ import annotations

import copy
import functools
import io
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch

import delegatec
from delegatec.delegation import BackendRegistry, PartitionRules
from delegatec.diagnostics import DelegatecError
from delegatec.program import ProgramOptions, weights_of, write_flat_tensors, write_program

NET, X = torch.nn.Linear(3, 3), (torch.ones(2, 3),)
WRONG: Final[dict[str, Any]] = {
    "None": None,
    "a number": 3,
    "NaN": float("nan"),
    "a string": "x",
    "bytes": b"x",
    "an empty list": [],
    "a list": ["a", 3],
    "an empty dict": {},
    "a dict": {1: 2},
    "an object": object(),
    "a tensor": torch.ones(2),
    "a tuple of tensors": X,
    "a function": lambda *_: 1,
    "a class": torch.nn.Linear,
    "a module": NET,
}
# Cannot be keys.
_UNHASHABLE: Final = (list, dict)


@functools.cache
def _exported() -> Any:
    return delegatec.export(delegatec.Model(NET, X))


def exported() -> Any:
    """Returns new programs: most functions edit those that they get."""
    return copy.deepcopy(_exported())


def edge() -> Any:
    return delegatec.to_edge(exported()["forward"])


def method(**given: Any) -> object:
    arguments: dict[str, Any] = {"function": "forward", "example_inputs": X, **given}
    return delegatec.Model(NET, methods={"a": delegatec.Method(**arguments)})


def fields(call: Callable[..., Any], *names: str) -> dict[str, Callable[[Any], Any]]:
    """Returns calls with one of several keyword arguments."""
    return {f"{call.__name__}({name}=)": lambda v, name=name: call(**{name: v}) for name in names}  # type: ignore[misc]


def model(**given: Any) -> object:
    return delegatec.Model(**{"module": NET, "example_inputs": X, **given})


def model_export(**given: Any) -> object:
    return delegatec.export(delegatec.Model(NET, X, **given))


def lower(**given: Any) -> object:
    return delegatec.lower(**{"methods": exported(), **given})


def to_edge(**given: Any) -> object:
    return delegatec.to_edge(**{"exported": exported()["forward"], **given})


def write(**given: Any) -> object:
    return write_flat_tensors(**{"tensors": weights_of(exported()), "file": io.BytesIO(), **given})


CALLS: Final[dict[str, Callable[[Any], Any]]] = {
    **fields(model, "module", "example_inputs", "example_kwargs", "methods", "constant_methods", "strict"),
    **fields(model, "external_weights"),
    "Model(external_weights=[v])": lambda v: delegatec.Model(NET, X, external_weights=[v]),
    "lower(external_weights=[v])": lambda v: lower(external_weights=[v]),
    "weights_of(programs, v)": lambda v: weights_of(exported(), v),
    "weights_of(programs, [v])": lambda v: weights_of(exported(), [v]),
    **fields(model_export, "dynamic_shapes"),
    **fields(method, "function", "example_inputs", "example_kwargs"),
    **fields(lower, "methods", "backend", "options", "method_backends", "rules", "require_full_delegation"),
    **fields(lower, "keep_text", "registry", "external_weights", "program_options", "constant_methods"),
    **fields(to_edge, "exported", "method", "preserve", "state", "kept"),
    **fields(write, "tensors", "file", "alignment", "sources"),
    **fields(ProgramOptions, *ProgramOptions.__dataclass_fields__),
    **fields(PartitionRules, *PartitionRules.__dataclass_fields__),
    "Model(methods={v:})": lambda v: delegatec.Model(NET, methods={v: delegatec.Method("forward", X)}),
    "Model(methods={'a': v})": lambda v: delegatec.Model(NET, methods={"a": v}),
    "Model(constant_methods={'a': v})": lambda v: delegatec.Model(NET, X, constant_methods={"a": v}),
    "Model(dynamic_shapes=(v,))": lambda v: model_export(dynamic_shapes=(v,)),
    "Model(dynamic_shapes={'input': v})": lambda v: model_export(dynamic_shapes={"input": v}),
    "Model(dynamic_shapes=({0: v},))": lambda v: model_export(dynamic_shapes=({0: v},)),
    "Model(dynamic_shapes=({v: 3},))": lambda v: model_export(dynamic_shapes=({v: 3},)),
    "Model(example_kwargs={'a': v})": lambda v: model_export(example_kwargs={"a": v}),
    "export(v)": delegatec.export,
    "export(model, v)": lambda v: delegatec.export(delegatec.Model(NET, X), v),
    "load_checkpoint(v)": lambda v: delegatec.load_checkpoint(v, "a"),
    "load_checkpoint(module, v)": lambda v: delegatec.load_checkpoint(NET, v),
    "data_path(v)": delegatec.data_path,
    "lower({'forward': v})": lambda v: delegatec.lower({"forward": v}),
    "lower({v: program})": lambda v: delegatec.lower({v: exported()["forward"]}),
    "lower(options={v:})": lambda v: lower(backend="mps", options={v: "fp16"}),
    "lower(options={'precision': v})": lambda v: lower(backend="mps", options={"precision": v}),
    "lower(method_backends={'forward': v})": lambda v: lower(method_backends={"forward": v}),
    "lower(method_backends={v:})": lambda v: lower(method_backends={v: "mps"}),
    "lower(constant_methods={v:})": lambda v: lower(constant_methods={v: 1}),
    "extract(v)": lambda v: delegatec.extract(v, "."),
    "extract(lowered, v)": lambda v: delegatec.extract(delegatec.lower(exported()), v),
    "to_backend(v, v)": lambda v: delegatec.to_backend(v, v),
    "to_backend(id, v)": lambda v: delegatec.to_backend("MPSBackend", v),
    "to_backend(id, program, v)": lambda v: delegatec.to_backend("MPSBackend", edge(), v),
    "to_backend(program, v)": lambda v: delegatec.to_backend(edge(), v),
    "to_backend({'forward': program}, v)": lambda v: delegatec.to_backend({"forward": edge()}, v),
    "to_backend(registry=v)": lambda v: delegatec.to_backend("MPSBackend", edge(), registry=v),
    "write_program(v)": lambda v: write_program(v, io.BytesIO()),
    "write_program(program, v)": lambda v: write_program(delegatec.lower(exported()).emitted, v),
    "write_program(sources=v)": lambda v: write_program(delegatec.lower(exported()).emitted, io.BytesIO(), v),
    "weights_of(v)": weights_of,
    "weights_of({'a': v})": lambda v: weights_of({"a": v}),
    "BackendRegistry(v)": BackendRegistry,
    "BackendRegistry([v])": lambda v: BackendRegistry([v]),
    "BackendRegistry.register(v)": lambda v: BackendRegistry().register(v),
    "BackendRegistry.resolve(v)": lambda v: BackendRegistry().resolve(v),
    "BackendRegistry.by_id(v)": lambda v: BackendRegistry().by_id(v),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments(name: str) -> None:
    for kind, value in WRONG.items():
        if "{v:" in name and isinstance(value, _UNHASHABLE):
            continue
        try:
            CALLS[name](value)
        except DelegatecError as error:
            problems = {problem.message for problem in error.diagnostics}
            assert all(len(problem) < 300 for problem in problems), kind
        except Exception as error:
            raise AssertionError(f"{kind}: {type(error).__name__}: {error}") from error
