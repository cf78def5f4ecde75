# SPDX-License-Identifier: Apache-2.0
"""`delegatec.verify`: comparison of a program with the module that it was made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from delegatec.backends import builtin_backends
from delegatec.delegation import BackendRegistry
from delegatec.diagnostics.arguments import check_types, wrong_argument
from delegatec.frontend.export import export_with_samples
from delegatec.frontend.model import Model
from delegatec.samples.defaults import DEFAULT_CALLS
from delegatec.verify.runtime import Runtime
from delegatec.verify.verification import Verification, verify_program

_NUMBER = "a number"


def verify(
    program: str | Path,
    model: Model,
    *,
    weights: str | Path | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    minimum_snr_db: float | None = None,
    samples: int = DEFAULT_CALLS,
    registry: BackendRegistry | None = None,
    runtimes: Sequence[Runtime] = (),
) -> Verification:
    """Runs a program on this host, and compares its outputs with those of the module in eager mode.

    Delegates are run by the reference executors of their backends, without a device. The module is called
    with its example inputs and with random variations of them: for real inputs, make a `Model` of the same
    module with them.

    Args:
        program: the `.pte`.
        model: the model in float, which is exported again.
        weights: the program's external weights, a `.ptd`.
        atol: absolute tolerance of floating-point outputs, in their unit; by default that of their dtype and
            of the number of sums in a row.
        rtol: relative tolerance likewise.
        minimum_snr_db: least signal-to-noise ratio of each output in dB, instead of tolerances: for quantized
            programs.
        samples: calls of each method; more, if dynamic dimensions need more sizes.
        registry: the backends that run delegates; the built-in ones by default.
        runtimes: they run the program as well, such as `executorch_runtime.RUNTIME`.

    Returns:
        The comparison of each output of each call; `passed`, `diagnostics`, and `table()` for people.

    Raises:
        DelegatecError: DC415 for arguments of wrong types; DC35x for a file that cannot be read; DC501 for a
            program that cannot run here; DC507 for a program of another model; and errors of
            `delegatec.export`. Wrong outputs are not raised: they are diagnostics of the result.
    """
    if not isinstance(model, Model):
        raise wrong_argument("delegatec.verify", "model", model, "the delegatec.Model that was exported")
    check_types(
        "delegatec.verify",
        {
            "program": (program, str | Path, "a path"),
            "weights": (weights, str | Path | None, "a path"),
            "atol": (atol, float | int | None, _NUMBER),
            "rtol": (rtol, float | int | None, _NUMBER),
            "minimum_snr_db": (minimum_snr_db, float | int | None, _NUMBER),
            "samples": (samples, int, "a number of calls"),
            "runtimes": (runtimes, list | tuple, "a list of runtimes"),
            "registry": (registry, BackendRegistry | None, "a BackendRegistry"),
        },
    )
    exported = export_with_samples(model, samples=max(samples, 1))
    return verify_program(
        program,
        # A quantized program is another one than the one that is exported here.
        exported.programs if minimum_snr_db is None else {},
        builtin_backends() if registry is None else registry,
        atol=atol,
        rtol=rtol,
        ptd=weights,
        constant_methods=model.constant_methods,
        runtimes=runtimes,
        recorded=exported.samples,
        minimum_snr=minimum_snr_db,
    )
