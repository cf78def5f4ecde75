# SPDX-License-Identifier: Apache-2.0
"""Selection of backends, with their options, for each method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from delegatec.delegation import (
    Backend,
    BackendRegistry,
    CompileSpec,
    OptionValue,
    Partitioner,
    PartitionRules,
    RuledPartitioner,
    plugins,
)
from delegatec.delegation.lowering.to_backend import unknown_methods
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.arguments import wrong_argument

PORTABLE: Final = "portable"


@dataclass(frozen=True)
class ChosenBackend:
    """A backend and its settings.

    Attributes:
        backend: the backend.
        options: value of each of its options.
        compile_specs: its encoded options.
    """

    backend: Backend
    options: dict[str, OptionValue]
    compile_specs: tuple[CompileSpec, ...]

    def partitioner(self, rules: PartitionRules) -> Partitioner:
        """Returns its partitioner, under partition rules."""
        partitioner = plugins.call(Backend.partitioner, self.backend, self.compile_specs)
        return partitioner if rules == PartitionRules() else RuledPartitioner(partitioner, rules)


@dataclass(frozen=True)
class Choice:
    """The backends of a model.

    Attributes:
        of_method: method name -> its backends in order of priority; none for the portable kernels.
        registry: the registry that they come from.
        options: values of all options; named "BACKEND.OPTION" if there are several backends.
    """

    of_method: dict[str, tuple[ChosenBackend, ...]]
    registry: BackendRegistry
    options: dict[str, OptionValue]

    @property
    def name(self) -> str:
        """Names of all backends in order, or "portable"."""
        backends = [name for names in self.names.values() for name in names]
        return ", ".join(dict.fromkeys(backends)) or PORTABLE

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Method name -> names of its backends."""
        return {
            method: tuple(chosen.backend.name for chosen in several)
            for method, several in self.of_method.items()
        }


def choose_backends(
    methods: Iterable[str],
    backends: str | Sequence[str],
    options: Mapping[str, object],
    method_backends: Mapping[str, str | Sequence[str]],
    registry: BackendRegistry | None,
) -> Choice:
    """Resolves the requested backends and options.

    Args:
        methods: names of the model's methods.
        backends: a backend, as in `BackendRegistry.resolve`, or several in order of priority, or "portable".
        options: option -> value; with several backends, of all methods, "BACKEND.OPTION", with the backend as
            requested.
        method_backends: method -> backends, for methods with other backends.
        registry: the backends to choose from; the built-in ones by default.

    Raises:
        DelegatecError: DC401 to DC403 for unknown backends and options; DC413 for unknown methods; DC414 for
            options that do not name their backend if there are several; DC415 for arguments of the wrong
            type; DC423 for a backend that is listed twice.
    """
    others = {name: _several(each) for name, each in method_backends.items()}
    names = {name: others.get(name, _several(backends)) for name in methods}
    problems = unknown_methods(method_backends, names)
    # Also those without a method: options name the backend that they are for, as the rules require.
    lists = [_several(backends), *others.values()]
    selectors = list(dict.fromkeys(s for several in lists for s in several if s != PORTABLE))
    problems += [problem for several in lists for problem in _repeated(several)]
    problems += [_misplaced(several) for several in lists if PORTABLE in several and len({*several}) > 1]
    given, unclear = _options_of(selectors, options)
    problems += unclear
    if registry is None:
        if selectors:
            from delegatec.backends import builtin_backends  # Portable programs need none of them.

            registry = builtin_backends()
        else:
            registry = BackendRegistry()
    chosen: dict[str, ChosenBackend] = {}
    for selector in selectors:
        try:
            chosen[selector] = _choose(registry.resolve(selector), given[selector])
        except DelegatecError as error:
            problems += error.diagnostics
    problems = problems or [problem for several in lists for problem in _equal(several, chosen)]
    if problems:
        raise DelegatecError(dict.fromkeys(problems))
    used = {s: one for s, one in chosen.items() if any(s in several for several in names.values())}
    if len(used) == 1:
        settings = next(iter(used.values())).options
    else:
        settings = {f"{s}.{key}": value for s, one in used.items() for key, value in one.options.items()}
    return Choice(
        {name: tuple(chosen[s] for s in several if s != PORTABLE) for name, several in names.items()},
        registry,
        settings,
    )


def _several(backends: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(backends, (str, list, tuple)) or not all(isinstance(name, str) for name in backends):
        expected = "a backend, or a list of backends in order of priority"
        raise wrong_argument(
            "delegatec.lower", "backend", backends, expected, "a plug-in is module:attribute"
        )
    return ((backends,) if isinstance(backends, str) else tuple(backends)) or (PORTABLE,)


def _repeated(backends: Sequence[str]) -> list[Diagnostic]:
    """Returns DC423 for each backend that a list has twice."""
    return [
        Diagnostic(
            "DC423",
            f"backend {backend!r} is listed twice: {', '.join(backends)}",
            expected="each backend once, in order of priority",
            help="remove the others: they have no effect",
        )
        for backend, count in Counter(backends).items()
        if count > 1
    ]


def _equal(backends: Sequence[str], chosen: Mapping[str, ChosenBackend]) -> list[Diagnostic]:
    """Returns DC423 for each other name of a backend that is listed before, with the same settings."""
    names = [name for name in dict.fromkeys(backends) if name in chosen]
    return [
        Diagnostic(
            "DC423",
            f"{name!r} is the same backend as {first!r}, with the same options",
            expected="each backend once, in order of priority",
            help=f"remove {name!r}, or set its options",
        )
        for position, name in enumerate(names)
        for first in names[:position]
        if chosen[first] == chosen[name]
    ]


def _misplaced(backends: Sequence[str]) -> Diagnostic:
    return Diagnostic(
        "DC401",
        f"{PORTABLE} is listed with other backends: {', '.join(backends)}",
        expected=f"{PORTABLE} alone, or backends without it",
        help="remove it: operators that no backend supports run on the portable kernels anyway",
    )


def _options_of(
    selectors: Sequence[str], options: Mapping[str, object]
) -> tuple[dict[str, dict[str, object]], list[Diagnostic]]:
    """Returns selector -> its options, and problems with the names of options."""
    given: dict[str, dict[str, object]] = {selector: {} for selector in selectors}
    problems = []
    for key, value in options.items():
        owner = max((s for s in selectors if key.startswith(f"{s}.")), key=len, default=None)
        if owner is not None:
            given[owner][key.removeprefix(f"{owner}.")] = value
        elif len(selectors) == 1:
            given[selectors[0]][key] = value
        elif not selectors:
            problems.append(
                Diagnostic("DC402", f"backend {PORTABLE} has no option {key!r}", expected="no options")
            )
        else:
            problems.append(
                Diagnostic(
                    "DC414",
                    f"option {key!r} does not name its backend",
                    expected=" or ".join(f"{selector}.{key}" for selector in selectors),
                    help="prefix the option with its backend, spelled as in the list of backends",
                )
            )
    return given, problems


def _choose(backend: Backend, options: Mapping[str, object]) -> ChosenBackend:
    settings = plugins.option_values(backend, options)
    specs = plugins.call(Backend.compile_specs, backend, settings)
    return ChosenBackend(backend, settings, tuple(specs))
