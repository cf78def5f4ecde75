# SPDX-License-Identifier: Apache-2.0
"""Classification of differences from the peer: a class and a reason, from both blobs and their results."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

import torch

from tests.peer.differential import FAILS, RIGHT, STOPS, Comparison, Counts, Side, same_values

EQUAL: Final = "equal"
BETTER: Final = "better"
OTHER: Final = "other"
WORSE: Final = "worse"

CLASSES: Final = {
    EQUAL: "the same operations that compute, with the same constants, and no more that move data",
    BETTER: "the peer's is rejected by the runtime, wrong, larger, or in more delegates",
    OTHER: "the same results by other operations, for a named reason",
    WORSE: "ours is wrong, rejects more operators, or has more operations without a known reason",
}

# Message of the runtime for the peer's blob -> the bug.
_STOPS: Final = {
    r"kernels for single operators": "it is a graph for a single Metal kernel, which no runtime supports",
    r"inputs instead of": "constants of the model are inputs, which nobody passes",
    r"has \d+ bytes": "its integer constants have another size than their type",
    r"\d indices": "it has an index for each of several dimensions",
    r"index of bool": "a mask is used as an index",
    r"it is empty": "MPSGraph does not support empty tensors",
    r"does not promote": "operands of one operation have several dtypes",
    r"for floats only": "MPSGraph supports it for floats only",
    r"unsupported type \d+": "the runtime does not support its dtype",
    r"out of range": "negative indices are not counted from the end",
    r"an expansion of": "it expands to a higher rank",
    r"a convolution of": "it is a convolution of another kind",
    r"Scatter into": "it scatters out of bounds",
    r"padding \[": "the runtime pads one to three dimensions, and crops none",
    r"squeezing dimensions": "its list of dimensions is empty, which the runtime reads as the first",
    r"is declared as": "shape or dtype of its outputs differs from the declaration",
    r"used before its definition": "it uses an undefined value",
    r"operands of one operation have the dtypes": "operands of one operation have several dtypes",
    r"in float16": "MPSGraph supports it for float32 only",
    r"depthwise convolution of": "it is depthwise with several results per channel",
}

# Exception of the peer -> the reason.
_FAILS: Final = {
    r"not linked with support for mps": "int4 weights are packed on a Mac",
    r"tuple index out of range|NoneType": "an argument with a default is missing",
    r"flatc": "its JSON supports neither NaN nor bools",
}


@dataclass(frozen=True)
class Exchange:
    """A known difference between operations, for results that are right, or right more often.

    Attributes:
        reason: why ours are others.
        peers: operations, of which the peer's blob has one at least.
        ours: those that compute and that ours may have more of than the peer's.
        moves: those that move data, likewise.
        replaced: whether it is known only of operations that ours has fewer of than the peer's.
    """

    reason: str
    peers: frozenset[str]
    ours: frozenset[str]
    moves: frozenset[str] = frozenset()
    replaced: bool = False


def _exchange(reason: str, peers: str, ours: str, moves: str = "", *, replaced: bool = False) -> Exchange:
    gone, come, moved = (frozenset(names.split()) for names in (peers, ours, moves))
    return Exchange(reason, gone, come, moved, replaced)


EXCHANGES: Final = (
    _exchange("a clamp of floats is a HardTanh, which keeps NaN", "Clamp Relu", "HardTanh"),
    _exchange(
        "NaN is pooled separately", "MaxPool2DWithIndices", "Gt Isnan MaxPool2DWithIndices Sub Where", "Cast"
    ),
    _exchange("NaN is kept", "Minimum", "BitwiseAnd BitwiseOr Isnan Lt Where"),
    _exchange("powers by small integers are products", "Pow", "Mul", replaced=True),
    _exchange(
        "powers of negative values are decomposed",
        "Pow",
        "Abs BitwiseAnd BitwiseOr Eq Floor Lt Mul Ne Neg Reciprocal Sub Where",
        "Cast Full",
    ),
    _exchange("ties are rounded to even", "Round", "Abs Eq Mul Round Sub Where"),
    _exchange(
        "quotients are rounded exactly",
        "Div Fmod Remainder",
        "Abs Add BitwiseAnd BitwiseOr BitwiseXor Div Eq Floor Gt Isinf Isnan Lt Mul Ne Neg Sub Where",
        "Cast Full View",
    ),
    _exchange(
        "no logarithm of probabilities that underflow",
        "LogSoftmax",
        "Eq Exp Log Mean Mul Softmax Sub Where",
        "Cast Slice View",
    ),
    _exchange(
        "negative indices count from the end, unlike in MPSGraph",
        "Embedding IndexPut IndexSelect IndexTensor",
        "Add Lt Where",
        "Cast View",
    ),
    _exchange("positions are one index, not one for each element", "Scatter", "IndexPut", "Cast"),
    _exchange(
        "the elements outside of a slice are concatenated to it", "Scatter", "", "Cat Slice", replaced=True
    ),
)
# Operations with which casts on both sides are a choice of ours: sums of float16 lose bits, or overflow.
_WIDE: Final = frozenset(("Mean", "LayerNorm", "BatchNorm"))
_IN_FLOAT32: Final = "means of float16 are computed in float32"
_CAST: Final = "operands of one operation are cast to one dtype"
# Operators of the peer's graphs that create a scalar, which is a constant in ours.
_NUMBERS: Final = frozenset(("scalar_tensor.default",))


@dataclass(frozen=True)
class Verdict:
    """A class of `CLASSES`, and why."""

    kind: str
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join(self.reasons)


def classify(comparison: Comparison) -> Verdict:
    """The class of a case in one precision."""
    peer, ours = comparison.peer, comparison.ours
    if ours.result != RIGHT:
        if comparison.precision == "fp16" and ours.values and same_values(ours.values, peer.values, 0.0):
            return Verdict(EQUAL, ("the same values, beyond float16",))
        return Verdict(WORSE, (_bad(ours),))
    if peer.result == FAILS:
        return Verdict(BETTER, (f"the peer fails: {reason_of(peer)}",))
    if peer.result == STOPS:
        return Verdict(BETTER, (f"the runtime aborts on the peer's: {reason_of(peer)}",))
    if peer.result != RIGHT:
        return Verdict(BETTER, ("the peer's results are wrong",))
    return _both_right(peer, ours)


def _both_right(peer: Side, ours: Side) -> Verdict:
    if not ours.delegates and not ours.left:
        constant = peer.delegates or peer.left
        return Verdict(BETTER, ("everything is constant at compile time",)) if constant else Verdict(EQUAL)
    if not ours.delegates and ours.copies:
        return Verdict(BETTER, ("data is only moved, which is not worth a delegate",))
    left = Counter(name for name in peer.left if name not in _NUMBERS)
    if len(ours.left) > left.total():
        return Verdict(WORSE, (f"ours leaves {', '.join(sorted(set(ours.left)))}",))
    if ours.delegates > peer.delegates and len(ours.left) == left.total():
        return Verdict(WORSE, (f"{ours.delegates} delegates instead of {peer.delegates}",))
    reasons = []
    if len(ours.left) < left.total():
        reasons.append(f"the peer leaves {', '.join(sorted(left - Counter(ours.left)))}")
    if len(peer.left) > left.total():
        reasons.append("the peer computes scalars outside of its delegate")
    if ours.delegates < peer.delegates:
        reasons.append("one delegate instead of several" if ours.delegates == 1 else "fewer delegates")
    if reasons:
        return Verdict(BETTER, tuple(reasons))
    return _operations(peer, ours)


def _operations(peer: Side, ours: Side) -> Verdict:
    """Returns the differences between the operations of two correct blobs for the same nodes."""
    assert peer.compute is not None and ours.compute is not None
    assert peer.moves is not None and ours.moves is not None
    gone, come = peer.compute - ours.compute, ours.compute - peer.compute
    added = ours.moves - peer.moves
    reasons = []
    for exchange in EXCHANGES:
        found = gone if exchange.replaced else peer.compute
        if exchange.peers & found.keys() and (come.keys() & exchange.ours or not exchange.ours):
            reasons.append(exchange.reason)
            come, gone = _without(come, exchange.ours), _without(gone, exchange.peers)
            added = _without(added, exchange.moves)
    better = bool(reasons) and ours.compute.total() <= peer.compute.total()
    if come:
        return Verdict(WORSE, (f"ours has {_listed(come)}, and the peer {_listed(gone) or 'nothing'}",))
    if gone:
        reasons.append(f"fewer operations: no {_listed(gone)}")
        better = True
    if added.total() > (peer.moves - ours.moves).total():
        if set(added) != {"Cast"}:
            return Verdict(WORSE, (f"ours moves data by {_listed(added)} besides",))
        reasons.append(_IN_FLOAT32 if _WIDE & set(ours.compute) else _CAST)
    if not reasons and peer.constants != ours.constants:
        if _scalars(peer) != _scalars(ours):
            return Verdict(WORSE, ("other constants",))
        reasons.append("scalars are constants of the dtype of the operation")
    if reasons:
        return Verdict(BETTER if better else OTHER, tuple(reasons))
    return Verdict(EQUAL)


def _scalars(side: Side) -> Counter[tuple[tuple[int, ...], tuple[float, ...]]]:
    """The constants without their dtypes."""
    assert side.constants is not None
    found: Counter[tuple[tuple[int, ...], tuple[float, ...]]] = Counter()
    for (shape, dtype, data), count in side.constants.items():
        values = torch.frombuffer(bytearray(data), dtype=getattr(torch, dtype.removeprefix("torch.")))
        found[shape, tuple(values.double().tolist())] += count
    return found


def _without(counts: Counts, names: frozenset[str]) -> Counts:
    return Counter({name: count for name, count in counts.items() if name not in names})


def _listed(counts: Counts) -> str:
    return ", ".join(f"{name} x {n}" if n > 1 else name for name, n in sorted(counts.items()))


def _bad(side: Side) -> str:
    return f"ours {side.result}" + (f": {side.detail.splitlines()[0]}" if side.detail else "")


def reason_of(peer: Side) -> str:
    """Returns why the peer failed, or why the runtime would abort on its blob."""
    for pattern, reason in (_FAILS if peer.result == FAILS else _STOPS).items():
        if re.search(pattern, peer.detail):
            return reason
    return f"UNKNOWN {peer.detail.splitlines()[0] if peer.detail else ''}"
