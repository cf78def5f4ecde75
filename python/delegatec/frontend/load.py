# SPDX-License-Identifier: Apache-2.0
"""Loading of models: imports the user's source file and calls its entry."""

from __future__ import annotations

import importlib.util
import inspect
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn

import numpy
import torch

from delegatec.diagnostics import DelegatecError, Diagnostic, SourceLocation
from delegatec.diagnostics.exceptions import did_you_mean
from delegatec.diagnostics.quiet import quiet_logger
from delegatec.frontend.model import Model
from delegatec.frontend.session import Session
from delegatec.frontend.user_errors import LIBRARIES, raise_user_error


def load_model(session: Session, entry: str, seed: int) -> Model:
    """Runs the user's code.

    Args:
        session: the running export (`session.running`).
        entry: name of the function in the session's source that returns the Model.
        seed: seed of torch, numpy and random, before the import and before the call.

    Raises:
        DelegatecError: DC101 to DC107, DC115, or errors of `Model` and `load_checkpoint`.
    """
    function, result = call_entry(session, entry, seed)
    if not isinstance(result, Model):
        getattr(result, "close", lambda: None)()  # A coroutine would warn that nobody awaits it.
        found = "None" if result is None else f"a value of type {type(result).__name__}"
        _fail(
            "DC107",
            f"{entry}() returns {found}",
            definition(session, function),
            expected="a delegatec.Model",
            help_text="return delegatec.Model(module, example_inputs)",
        )
    return result


# torchao 0.18 registers its enumerations as constants, of which torch 2.13 warns whenever a model imports it.
@quiet_logger("torch.utils._pytree")
def call_entry(
    session: Session, entry: str, seed: int, finish: Callable[[Any], Any] = lambda result: result
) -> tuple[Callable[[], Any], Any]:
    """Calls a function of the user's source.

    Args:
        session: the running export.
        entry: name of the function.
        seed: as in `load_model`.
        finish: runs user code that the result defers, such as a generator.

    Returns:
        The function, and its finished result.

    Raises:
        DelegatecError: DC101 to DC106, DC115, or errors of functions that the user calls.
    """
    seeded(seed)
    module = _import(session)
    function = _entry(session, module, entry)
    seeded(seed)
    try:
        with _failures_of_threads() as failures:
            result = finish(function())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - user code ran
        raise_user_error(session, error, "DC106", f"{entry}() raises")
    if failures:
        raise_user_error(session, failures[0], "DC106", f"a thread of {entry}() raises")
    return function, result


@contextmanager
def _failures_of_threads() -> Iterator[list[BaseException]]:
    """Collects the exceptions that end threads, which Python prints and forgets."""
    failures: list[BaseException] = []

    def keep(ended: threading.ExceptHookArgs) -> None:
        if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
            failures.append(ended.exc_value)

    before, threading.excepthook = threading.excepthook, keep
    try:
        yield failures
    finally:
        threading.excepthook = before


def choose_source(sources: Sequence[str], module: str) -> str:
    """Returns the source that an entry such as "foo:build" refers to.

    Args:
        sources: the declared source files.
        module: the part before the colon: the stem, or dotted path, of a source.

    Raises:
        DelegatecError: DC101, no source or several sources match.
    """
    matches = _named(sources, module)
    if len(matches) != 1:
        help = "add the file to `srcs`, or correct the entry"
        stem = module.removesuffix(".py").replace("/", ".").strip(".")
        if matches:
            help = "name it with its directories, such as package.module:function"
        elif stem != module and _named(sources, stem):
            help = f'write the module with dots and without .py: "{stem}"'
        _fail(
            "DC101",
            f'several sources are named "{module}"' if matches else f'no source is named "{module}"',
            None,
            expected=f"one of: {', '.join(sources) or 'none'}",
            help_text=help,
        )
    return matches[0]


def _named(sources: Sequence[str], module: str) -> list[str]:
    tail = module.replace(".", "/") + ".py"
    return [path for path in sources if f"/{path}".endswith(f"/{tail}")]


def _import(session: Session) -> ModuleType:
    source = session.source
    relative = session.workspace.relative(source)
    if not os.path.isfile(source):
        _fail("DC101", f"{relative} does not exist", None, help_text="check `srcs` and `entry`")
    name = os.path.splitext(relative)[0].replace(os.sep, ".")
    if hidden := _hidden_module(session):
        _fail(
            "DC126",
            f'{relative} hides the module "{hidden}", which the compiler or a library imports',
            SourceLocation(relative, 1),
            expected="a file name that is not the name of a module of Python, torch or the compiler",
            help_text="rename the file, and `entry`",
        )
    specification = importlib.util.spec_from_file_location(name, os.path.abspath(source))
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - user code ran
        raise_user_error(session, error, "DC104", f"importing {relative} raises")
    return module


def _hidden_module(session: Session) -> str:
    """Returns the module that the source would be imported as, instead of one of Python or a library."""
    for root in (session.workspace.root, *session.workspace.import_roots):
        path = os.path.relpath(os.path.abspath(session.source), root)
        name, slash, _ = path.removesuffix(".py").partition(os.sep)
        if name in LIBRARIES or (name in sys.stdlib_module_names and not slash):
            return name
    return ""


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
        near = f"{did_you_mean(name, functions)} ".lstrip()
        _fail(
            "DC105",
            f'{relative} defines no function "{name}"',
            SourceLocation(relative, 1),
            expected=f"one of its functions: {known}",
            help_text=f"{near}correct the entry, or define a function without parameters",
        )
    if not callable(function) or isinstance(function, type):
        kind = "a class" if isinstance(function, type) else f"of type {type(function).__name__}"
        _fail(
            "DC105",
            f'"{name}" in {relative} is {kind}',
            definition(session, function) or SourceLocation(relative, 1),
            expected="a function without parameters that returns a delegatec.Model",
            help_text=f"define def {name}() -> delegatec.Model",
        )
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        _fail(
            "DC105",
            f"{name}() cannot be called without arguments: {error}",
            definition(session, function),
            expected="a function without required parameters that returns a delegatec.Model",
            help_text="give the parameters default values, or define one entry per model",
        )
    result: Callable[[], Any] = function
    return result


def definition(session: Session, function: Any) -> SourceLocation | None:
    """Returns the line that defines a function; None if it has none."""
    try:
        path = inspect.getsourcefile(function)
        _, line = inspect.getsourcelines(function)
    except (TypeError, OSError):
        return None
    return session.workspace.line(path or session.source, line, getattr(function, "__name__", ""))


def seeded(seed: int) -> None:
    """Seeds the random generators that user code may call: those of torch, numpy and Python."""
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
