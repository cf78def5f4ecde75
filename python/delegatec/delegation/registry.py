# SPDX-License-Identifier: Apache-2.0
"""The registry of backends: an explicit value, not a global."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from delegatec.delegation.faults import attribute_errors, kind_of
from delegatec.delegation.plugin_import import DEPS, import_attribute
from delegatec.delegation.protocol.backend import Backend
from delegatec.diagnostics import DelegatecError, Diagnostic, SourceLocation
from delegatec.diagnostics.arguments import wrong_argument
from delegatec.diagnostics.exceptions import did_you_mean

_NAME: Final = re.compile(r"[\w-]+")


class BackendRegistry:
    """Backends by name and by their id in the runtime.

    Args:
        backends: the initial ones.
    """

    def __init__(self, backends: Iterable[Backend] = ()) -> None:
        self._by_name: dict[str, Backend] = {}
        self._by_id: dict[str, Backend] = {}
        if not isinstance(backends, (list, tuple, Iterator)):
            raise wrong_argument("BackendRegistry", "backends", backends, "a list of backends")
        for backend in backends:
            self.register(backend)

    def __iter__(self) -> Iterator[Backend]:
        return iter(self._by_name.values())

    def register(self, backend: Backend) -> None:
        """Adds a backend.

        Raises:
            ValueError: duplicate name or id.
            DelegatecError: DC415, not a backend.
        """
        if not isinstance(backend, Backend):
            expected = "a delegatec.delegation.Backend"
            raise wrong_argument("BackendRegistry.register", "backend", backend, expected)
        if backend.name in self._by_name:
            raise ValueError(f"a backend named {backend.name!r} is already registered")
        if backend.id in self._by_id:
            raise ValueError(f"a backend with id {backend.id!r} is already registered")
        self._by_name[backend.name] = backend
        self._by_id[backend.id] = backend

    def by_id(self, backend_id: str) -> Backend:
        """Returns the backend with an id.

        Raises:
            DelegatecError: DC401, with the known ids.
        """
        backend = self._by_id.get(backend_id) if isinstance(backend_id, str) else None
        if backend is None:
            raise _unknown(f"no backend has the id {backend_id!r}", backend_id, self._by_id)
        return backend

    def resolve(self, selector: str) -> Backend:
        """Returns the backend that a user requested.

        Args:
            selector: a registered name, or "module:attribute" for a plug-in, which is then registered.

        Raises:
            DelegatecError: DC401 for an unknown name, DC403 for a plug-in that is missing, raises while
                it is imported, is not a backend, or has the name or id of another one.
        """
        backend = self._by_name.get(selector) if isinstance(selector, str) else None
        if backend is not None:
            return backend
        if not isinstance(selector, str) or ":" not in selector:
            raise _unknown(f"no backend is named {selector!r}", selector, self._by_name)
        plugin = _load_plugin(selector)
        if self._by_name.get(plugin.name) is not plugin:
            try:
                self.register(plugin)
            except ValueError as error:
                raise _bad_plugin(selector, str(error), "choose another name and id") from error
        return plugin


def _unknown(message: str, wanted: object, known: Iterable[str]) -> DelegatecError:
    several = isinstance(wanted, str) and "," in wanted
    near = "name one backend each time" if several else did_you_mean(wanted, known)
    # In a build, an export has no backends: a .pt2 cannot store delegates.
    absent = "" if known else "in a build, lower the exported program with a rule, such as mps_program"
    return DelegatecError(
        [
            Diagnostic(
                code="DC401",
                message=message,
                expected=", ".join(sorted(known)) or "no backend is registered",
                help=near or absent or 'name a plug-in as "module:attribute"',
            )
        ]
    )


def _load_plugin(selector: str) -> Backend:
    backend = import_attribute(selector, partial(_bad_plugin, selector), "my_package.npu:BACKEND")
    if not isinstance(backend, Backend):
        attribute = selector.partition(":")[2]
        message = f"{attribute!r} is {kind_of(backend)}, which is not a backend"
        raise _bad_plugin(selector, message, "derive its class from delegatec.delegation.Backend")
    with attribute_errors(backend, f"backend {selector!r}"):  # They may be properties.
        members = {"name": backend.name, "id": backend.id}
    for member, value in members.items():
        if not isinstance(value, str) or not value:
            raise _bad_plugin(selector, f"its {member} is {value!r}", "name it with a string")
    if not _NAME.fullmatch(backend.name) or backend.name == "portable":
        # "portable" is none, options are "NAME.OPTION", and a selector has a colon
        help = "name it with letters, digits, _ and -, other than portable, which is not a backend"
        raise _bad_plugin(selector, f"its name is {backend.name!r}", help)
    return backend


def _bad_plugin(
    selector: str,
    message: str,
    help_text: str = DEPS,
    location: SourceLocation | None = None,
) -> DelegatecError:
    return DelegatecError(
        [
            Diagnostic(
                code="DC403",
                message=f"backend {selector!r} cannot be loaded: {message}",
                expected="module:attribute, where attribute is a delegatec.delegation.Backend",
                location=location,
                help=help_text,
            )
        ]
    )
