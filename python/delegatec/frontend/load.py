# SPDX-License-Identifier: Apache-2.0
"""Loading of models: imports the user's source file and calls its entry."""

from __future__ import annotations

import importlib.util
import inspect
import os
import random
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

import numpy
import torch

from delegatec.diagnostics import DelegatecError, Diagnostic, SourceLocation
from delegatec.frontend.model import Model
from delegatec.frontend.session import Session
from delegatec.frontend.workspace import preferred


def load_model(session: Session, entry: str, seed: int) -> Model:
    """Runs the user's code.

    Args:
        session: the running export (`session.running`).
        entry: name of the function in the session's source that returns the Model.
        seed: seed of torch, numpy and random, before the import and before the call.

    Raises:
        DelegatecError: DC101 to DC107, DC115, or errors of `Model` and `load_checkpoint`.
    """
    _seed(seed)
    module = _import(session)
    function = _entry(session, module, entry)
    _seed(seed)
    try:
        result = function()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code ran
        _raise_user_error(session, error, "DC106", f"{entry}() raises")
    if not isinstance(result, Model):
        _fail(
            "DC107",
            f"{entry}() returns a value of type {type(result).__name__}",
            _definition(session, function),
            expected="a delegatec.Model",
            help_text="return delegatec.Model(module, example_inputs)",
        )
    return result


def choose_source(sources: Sequence[str], module: str) -> str:
    """Returns the source that an entry such as "foo:build" refers to.

    Args:
        sources: the declared source files.
        module: the part before the colon: the stem, or dotted path, of a source.

    Raises:
        DelegatecError: DC101, no source or several sources match.
    """
    tail = module.replace(".", "/") + ".py"
    matches = [path for path in sources if f"/{path}".endswith(f"/{tail}")]
    if len(matches) != 1:
        _fail(
            "DC101",
            f"entry module {tail} is {'ambiguous' if matches else 'not'} among the sources",
            None,
            expected=f"one of: {', '.join(sources) or 'none'}",
            help_text="add the file to `srcs`, or correct `entry`",
        )
    return matches[0]


def _import(session: Session) -> ModuleType:
    source = session.source
    relative = session.workspace.relative(source)
    if not os.path.isfile(source):
        _fail("DC101", f"{relative} does not exist", None, help_text="check `srcs` and `entry`")
    name = os.path.splitext(relative)[0].replace(os.sep, ".")
    specification = importlib.util.spec_from_file_location(name, os.path.abspath(source))
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code ran
        _raise_user_error(session, error, "DC104", f"importing {relative} raises")
    return module


def _entry(session: Session, module: ModuleType, name: str) -> Callable[[], Any]:
    function = getattr(module, name, None)
    relative = session.workspace.relative(session.source)
    functions = [
        key
        for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_")
    ]
    known = ", ".join(functions) or "none"
    if function is None:
        _fail(
            "DC105",
            f'{relative} defines no function "{name}"',
            SourceLocation(relative, 1),
            expected=f"one of its functions: {known}",
            help_text=f"define def {name}() -> delegatec.Model, or correct `entry`",
        )
    if not callable(function) or isinstance(function, type):
        kind = "a class" if isinstance(function, type) else f"of type {type(function).__name__}"
        _fail(
            "DC105",
            f'"{name}" in {relative} is {kind}',
            _definition(session, function) or SourceLocation(relative, 1),
            expected="a function without parameters that returns a delegatec.Model",
            help_text=f"define def {name}() -> delegatec.Model",
        )
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        _fail(
            "DC105",
            f"{name}() cannot be called without arguments: {error}",
            _definition(session, function),
            expected="a function without required parameters that returns a delegatec.Model",
            help_text="give the parameters default values, or define one entry per model",
        )
    return function  # type: ignore[no-any-return]


def _raise_user_error(session: Session, error: BaseException, code: str, what: str) -> NoReturn:
    if isinstance(error, DelegatecError):
        raise error
    workspace = session.workspace
    location = preferred(workspace.frames(error.__traceback__))
    text = str(error).strip().partition("\n")[0]
    if isinstance(error, SyntaxError) and error.filename:
        location = workspace.line(error.filename, error.lineno or 1)
        _fail(
            "DC102", f"syntax error in {location.file}: {error.msg}", location, help_text="correct this line"
        )
    if isinstance(error, ModuleNotFoundError):
        _fail(
            "DC103",
            f'no module named "{error.name}"',
            location,
            expected="a module provided by `deps` of the target",
            help_text=f'add the py_library that provides "{error.name}" to `deps`',
        )
    if isinstance(error, FileNotFoundError) and error.filename:
        name = os.fspath(error.filename)
        name = name if isinstance(name, str) else os.fsdecode(name)
        _fail(
            "DC115",
            f'no such file: "{workspace.relative(name) if os.path.isabs(name) else name}"',
            location,
            expected="a file declared in `data` and located with delegatec.data_path(name)",
            help_text="add the file to `data` of the target and open delegatec.data_path(name)",
        )
    _fail(
        code,
        f"{what}: {type(error).__name__}{f': {text}' if text else ''}",
        location,
        help_text="fix this line or its inputs",
    )


def _definition(session: Session, function: Any) -> SourceLocation | None:
    try:
        path = inspect.getsourcefile(function)
        _, line = inspect.getsourcelines(function)
    except (TypeError, OSError):
        return None
    return session.workspace.line(path or session.source, line, getattr(function, "__name__", ""))


def _seed(seed: int) -> None:
    # Sums, and so weights that the entry computes, depend on the number of threads.
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    numpy.random.seed(seed % 2**32)
    random.seed(seed)


def _fail(
    code: str, message: str, location: SourceLocation | None, *, expected: str = "", help_text: str = ""
) -> NoReturn:
    raise DelegatecError(
        [Diagnostic(code=code, message=message, location=location, expected=expected, help=help_text)]
    )
