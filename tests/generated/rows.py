# SPDX-License-Identifier: Apache-2.0
"""The functions that generated programs call: templates of rows, by weight.

A hole `{name}` in a template is an operand, or is filled with a literal; see `tests.generated.holes`.
Arguments that eager mode rejects are drawn again, so that a template only has to be likely to be valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tests.generated.rows_elementwise import ELEMENTWISE
from tests.generated.rows_guards import GUARDS
from tests.generated.rows_layers import LAYERS
from tests.generated.rows_loops import LOOPS
from tests.generated.rows_memory import ATTRIBUTES, CACHES, HELD
from tests.generated.rows_models import DATA_DEPENDENT, MODELS
from tests.generated.rows_network import NETWORK
from tests.generated.rows_reduction import REDUCTION
from tests.generated.rows_settings import SETTINGS
from tests.generated.rows_shape import SHAPE
from tests.generated.rows_sizes import SIZES
from tests.generated.rows_state import CONTROL_FLOW, CREATION, IN_PLACE
from tests.generated.rows_tensor import INDEXING, LINEAR_ALGEBRA

# Functions without a kernel or a decomposition: a program with one of them checks the reason alone.
_RARE: Final = re.compile(
    r"\.(i0e?|i1e?|modified_bessel_i0|bessel_j0|nextafter|bincount|dequantize|matrix_exp|triangular_solve|gcd|lcm"
    r"|frexp|det|inv|solve|cholesky|solve_triangular|equal|heaviside|polygamma|multigammaln|digamma|psi|lgamma|gammaln"
    r"|zeta|histc|kthvalue|nanquantile|quantile|fake_quantize_per_tensor_affine|logcumsumexp|corrcoef|renorm|combinations)\("
)


def _common(rows: Iterable[str]) -> tuple[str, ...]:
    return tuple(row for row in rows if not _RARE.search(row))


_TENSOR_ROWS: Final = (
    *(*ELEMENTWISE, *REDUCTION, *SHAPE, *INDEXING, *LINEAR_ALGEBRA, *NETWORK, *CREATION, *MODELS),
)
# Group -> how often one of its rows is drawn.
GROUPS: Final[dict[tuple[str, ...], float]] = {
    _common(ELEMENTWISE): 6,
    _common(REDUCTION): 3,
    _common(SHAPE): 4,
    _common(INDEXING): 2.5,
    _common(LINEAR_ALGEBRA): 2,
    _common(NETWORK): 2.5,
    _common(CREATION): 0.7,
    _common(MODELS): 1.2,
    DATA_DEPENDENT: 0.05,
    IN_PLACE: 2,
    CONTROL_FLOW: 0.4,
    CACHES: 1,
    ATTRIBUTES: 1,
    HELD: 0.02,
    SIZES: 0.5,
    tuple(row for row in _TENSOR_ROWS if _RARE.search(row)): 0.15,
}
# Likewise, of programs that are quantized.
LAYER_GROUPS: Final[dict[tuple[str, ...], float]] = {
    LAYERS: 6,
    _common(SHAPE): 1.5,
    _common(REDUCTION): 0.5,
    _common(NETWORK): 0.5,
    CACHES: 1,
    SIZES: 0.3,
}
# Likewise, with loops.
LOOP_GROUPS: Final[dict[tuple[str, ...], float]] = {LOOPS: 3, LAYERS: 2, _common(SHAPE): 1}
# Of programs with settings that sizes determine.
SETTING_GROUPS: Final[dict[tuple[str, ...], float]] = {
    SETTINGS: 6,
    _common(ELEMENTWISE): 1,
    _common(SHAPE): 1,
    _common(NETWORK): 1,
    SIZES: 1,
}
# Of programs with guards.
GUARD_GROUPS: Final[dict[tuple[str, ...], float]] = {
    GUARDS: 6,
    _common(ELEMENTWISE): 1,
    _common(REDUCTION): 0.5,
    _common(SHAPE): 0.5,
}

_CALL: Final = re.compile(r"\.(\w+?)_?\(")


def functions(templates: Iterable[str] | None = None) -> set[str]:
    """Returns names of functions and methods that templates call, `torch.relu` and `F.relu` as one."""
    rows = templates if templates is not None else [row for group in GROUPS for row in group]
    return {match[1] for row in rows for match in _CALL.finditer(row)}
