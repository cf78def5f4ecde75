# SPDX-License-Identifier: Apache-2.0
"""A case lowered by the peer: it needs Arm's libraries, the serializer and Vela."""

from __future__ import annotations

import logging
import warnings
from typing import Any, Final

from tests.peer.arm.collection import ArmCase

# The stages that need a simulator or the reference model.
_NOT_RUN: Final = ("serialize", "run_method_and_compare_outputs")

ACCEPTED: Final = "accepted"
LEFT: Final = "left"
FAILS: Final = "fails"


def peer_line(case: ArmCase) -> dict[str, Any]:
    """Runs the stages of a test up to the program file.

    Returns:
        `status`: ACCEPTED, or FAILS, or LEFT if a check of the test fails, most often that everything is in
        one delegate; `stage` and `reason` of the failure.
    """
    line = {"kind": case.kind, "expected": case.expected}
    logging.disable(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for stage in case.pipeline._stages:
            if stage.id.startswith(_NOT_RUN):
                continue
            try:
                stage()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - any error of the peer
                status = LEFT if stage.id.startswith("check") else FAILS
                reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
                return {**line, "status": status, "stage": stage.id, "reason": reason}
    return {**line, "status": ACCEPTED}
