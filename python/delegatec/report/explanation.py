# SPDX-License-Identifier: Apache-2.0
"""What was delegated of a program, what was not and why, and what to do about it, in a few sentences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from delegatec.diagnostics.exceptions import printable
from delegatec.report.manifest import Manifest
from delegatec.report.methods import Location, MethodInfo, NotDelegated, NoteInfo
from delegatec.samples.search import Search

_SHOWN: Final = 3
"""Reasons, advices and notes that are worth a first look."""
_LITTLE: Final = 0.01
"""A share of the multiplications that hardly changes the time."""
_CONVERSIONS: Final = ("quantized_decomposed.quantize_per_", "quantized_decomposed.dequantize_per_")
_MAGNITUDES: Final = ((10**9, "billion"), (10**6, "million"), (10**3, "thousand"))


@dataclass(frozen=True)
class Left:
    """Operators that are outside of delegates for one reason.

    Attributes:
        text: their number, operator, and the reason.
        location: the user's line of the first one, if it is known.
        others: number of further lines.
    """

    text: str
    location: Location | None
    others: int


@dataclass(frozen=True)
class Explanation:
    """The explanation of a method.

    Attributes:
        method: its name.
        delegated: what was delegated: a sentence.
        left: what was not: a sentence, which ends with a colon if reasons follow; "" if nothing was left.
        reasons: why, those of the most operators first.
        advice: what to do, a sentence each.
    """

    method: str
    delegated: str
    left: str
    reasons: tuple[Left, ...]
    advice: tuple[str, ...]


def explanations_of(manifest: Manifest) -> tuple[Explanation, ...]:
    """Returns the explanation of each method that computes something.

    Args:
        manifest: of the program; with lines for the lines of the model.
    """
    return tuple(_explained(method, manifest.search) for method in manifest.methods)


def format_explanations(manifest: Manifest) -> str:
    """Returns the explanations as text, with a final newline."""
    lines: list[str] = []
    for each in explanations_of(manifest):
        lines += [*([""] if lines else []), f"{manifest.label or 'program'}, method {each.method}"]
        lines.append(f"  {each.delegated}")
        lines += [f"  {each.left}"] if each.left else []
        for reason in each.reasons:
            lines.append(f"    {reason.text}")
            lines += [f"      at {line_text(reason)}"] if reason.location is not None else []
        lines += [f"  {'To do: ' if index == 0 else ''}{advice}" for index, advice in enumerate(each.advice)]
    return "\n".join(map(printable, lines)) + "\n" if lines else "the program computes nothing\n"


def line_text(reason: Left) -> str:
    """Returns the line of a reason, and the number of others, as text; it has a line."""
    assert reason.location is not None
    source = f": {reason.location.text}" if reason.location.text else ""
    others = f" (and {_counted(reason.others, 'other line')})" if reason.others else ""
    return f"{reason.location.file}:{reason.location.line}{source}{others}"


def _explained(method: MethodInfo, search: Search | None) -> Explanation:
    reasons = _reasons(method)
    left = method.nodes - method.nodes_delegated
    in_float = _in_float(search)
    advice = tuple(_advice(method, left, reasons, search))
    shown = tuple(map(_shown, reasons[:_SHOWN])) if method.backends else ()
    sentences = [_left(method, left, bool(shown)), in_float]
    if shown:
        sentences.reverse()  # the reasons follow their sentence
    return Explanation(method.name, _delegated(method), " ".join(filter(None, sentences)), shown, advice)


def _delegated(method: MethodInfo) -> str:
    count, total = method.nodes_delegated, method.nodes
    blobs = Counter(delegate.backend for delegate in method.delegates)
    delegates = " and ".join(
        f"{_counted(number, 'delegate')} of {backend}" for backend, number in blobs.items()
    )
    if not count:
        if blobs:
            rest = "no operator outside of them was delegated" if total else "nothing else is computed"
            return f"The exported program has {delegates}; {rest}."
        if not total:
            return "No operators: all that the method returns is constant."
        if not method.backends:
            operators = "1 operator runs" if total == 1 else f"{total} operators run"
            return f"No backend was requested: {operators} on the kernels of ExecuTorch's runtime."
        subject = "The only operator was not" if total == 1 else f"None of {total} operators was"
        return f"{subject} delegated, by {' and '.join(method.backends)}."
    work = _work(method.multiplications_delegated, method.multiplications)
    share = f"All {_counted(total, 'operator')}" if count == total and total > 1 else None
    share = share or (f"{count} of {_counted(total, 'operator')}" if total > 1 else "The only operator")
    runs = "runs" if total == 1 else "run"
    return f"{share}{work} {runs} in {delegates}."


def _work(part: int, whole: int) -> str:
    if not whole:
        return ""
    if part == whole:
        return f", with all {_number(whole)} multiplications of layers and products,"
    share = min(max(100 * part / whole, 0.1), 99.9) if part else 0  # never rounded to none or all
    return f", with {share:.3g} % of {_number(whole)} multiplications of layers and products,"


def _left(method: MethodInfo, left: int, has_reasons: bool) -> str:
    if not method.backends or not left:
        return ""
    several = len(method.delegates) > 1
    splits = f" and split the method into {len(method.delegates)} delegates" if several else ""
    subject = f"The {left} others run" if method.nodes_delegated else f"All {left} run"
    if left == 1:
        subject = "One runs" if method.nodes_delegated else "It runs"
        splits = splits.replace("split", "splits")
    return f"{subject} on the kernels of ExecuTorch's runtime{splits}{':' if has_reasons else '.'}"


def _in_float(search: Search | None) -> str:
    if search is None or not search.in_float:
        return ""
    return (
        f"{len(search.in_float)} of {search.layers} layers stay in float, so that {search.metric_name} "
        f"loses at most {search.maximum_loss:.3g}."
    )


def _reasons(method: MethodInfo) -> list[list[NotDelegated]]:
    """Groups nodes by the reason of the first backend that refused them, the largest group first."""
    first: dict[str, NotDelegated] = {}
    for each in method.not_delegated:
        first.setdefault(each.node, each)
    groups: dict[tuple[str, str, str, str], list[NotDelegated]] = defaultdict(list)
    for each in first.values():
        groups[each.backend, each.operator, each.rule, each.message].append(each)
    return sorted(groups.values(), key=lambda group: -len(group))


def _shown(group: Sequence[NotDelegated]) -> Left:
    lines = list(dict.fromkeys(each.location for each in group if each.location is not None))
    text = f"{len(group)} {group[0].operator}, refused by {group[0].backend}: {group[0].message}"
    return Left(text, lines[0] if lines else None, max(len(lines) - 1, 0))


def _advice(
    method: MethodInfo, left: int, reasons: Sequence[Sequence[NotDelegated]], search: Search | None
) -> Iterator[str]:
    if not method.backends and left:
        yield 'Lower the model for a backend as well, such as delegate_programs(backends = ["xnnpack"]).'
    elif left and _are_conversions(reasons):
        yield "Set quantize_io of quantized_program, so that the app passes and receives integers."
    elif left:
        yield from _helps(method, reasons)
    if search is not None and search.in_float:
        yield "A larger maximum_loss of quantized_program keeps fewer layers in float."
    yield from map(_of_note, method.notes[:_SHOWN])


def _are_conversions(reasons: Sequence[Sequence[NotDelegated]]) -> bool:
    """Whether all that is left converts floats of the caller to integers, or integers to floats."""
    operators = {each.operator for group in reasons for each in group}
    return bool(operators) and all(operator.startswith(_CONVERSIONS) for operator in operators)


def _helps(method: MethodInfo, reasons: Sequence[Sequence[NotDelegated]]) -> Iterator[str]:
    work = method.multiplications
    is_little = bool(work) and method.multiplications_delegated >= (1 - _LITTLE) * work
    if is_little and len(method.delegates) == 1:
        yield (
            "Measure with NAME.profile before you change anything: the others have less than "
            f"{100 * _LITTLE:g} % of the multiplications. The output group reasons has what would help each."
        )
        return
    helps: dict[str, list[str]] = defaultdict(list)
    without: list[str] = []
    for group in reasons:
        names = helps[group[0].help] if group[0].help else without
        names.append(group[0].operator)
    for help, operators in list(helps.items())[:_SHOWN]:
        yield f"For {_names(operators)}: {help.rstrip('.')}."
    if without:
        yield (
            f"No option of the backend takes {_names(without)}: write the lines with other operators, or "
            "name a second backend, which gets what the first one leaves."
        )


def _of_note(note: NoteInfo) -> str:
    help = f"; {note.help.rstrip('.')}" if note.help else ""
    where = f"{note.location.file}:{note.location.line}: " if note.location is not None else ""
    return f"Note [{note.name}]: {where}{note.message}{help}."


def _names(operators: Sequence[str]) -> str:
    names = list(dict.fromkeys(operators))
    if len(names) > _SHOWN:
        return f"{', '.join(names[:_SHOWN])} and {len(names) - _SHOWN} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _number(count: int) -> str:
    for size, name in _MAGNITUDES:
        if count >= size:
            return f"{count / size:.3g} {name}"
    return str(count)
