# SPDX-License-Identifier: Apache-2.0
"""Vela's estimates of cycles, memory and bandwidth: comparable for the same settings, not measurements."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from delegatec.delegation import Estimates, LayerEstimate

_OPERATORS: Final = re.compile(r"NPU operators = (\d+)")
_KIB: Final = 1024
_TOTALS: Final[Mapping[str, tuple[str, float]]] = {
    "cycles": ("cycles_total", 1),
    "npu_cycles": ("cycles_npu", 1),
    "sram_access_cycles": ("cycles_sram_access", 1),
    "dram_access_cycles": ("cycles_dram_access", 1),
    "on_chip_flash_access_cycles": ("cycles_on_chip_flash_access", 1),
    "off_chip_flash_access_cycles": ("cycles_off_chip_flash_access", 1),
    "macs": ("nn_macs", 1),
    "sram_bytes": ("sram_memory_used", _KIB),
    "dram_bytes": ("dram_memory_used", _KIB),
    "on_chip_flash_bytes": ("on_chip_flash_memory_used", _KIB),
    "off_chip_flash_bytes": ("off_chip_flash_memory_used", _KIB),
    "sram_traffic_bytes": ("sram_total_bytes", 1),
    "dram_traffic_bytes": ("dram_total_bytes", 1),
    "on_chip_flash_traffic_bytes": ("on_chip_flash_total_bytes", 1),
    "off_chip_flash_traffic_bytes": ("off_chip_flash_total_bytes", 1),
    "weight_bytes": ("total_original_weights", 1),
    "encoded_weight_bytes": ("total_npu_encoded_weights", 1),
    "clock_hz": ("core_clock", 1),
}
"""Name -> a column of Vela's summary, and its unit."""
_OF_LAYER: Final[Mapping[str, str]] = {
    "cycles": "Op Cycles",
    "npu_cycles": "NPU",
    "sram_access_cycles": "SRAM AC",
    "dram_access_cycles": "DRAM AC",
    "on_chip_flash_access_cycles": "OnFlash AC",
    "off_chip_flash_access_cycles": "OffFlash AC",
    "macs": "MAC Count",
    "staging_bytes": "Staging Usage",
}
"""Name -> a column of Vela's table of layers."""


def read_estimates(folder: Path, name: str, messages: str) -> Estimates:
    """Reads the estimates that Vela has written.

    Args:
        folder: of its outputs.
        name: the name of the network.
        messages: its printed output.
    """
    (summary,) = folder.glob(f"{name}_summary_*.csv")
    with summary.open(newline="") as file:
        (row,) = csv.DictReader(file)
    with (folder / f"{name}_per-layer.csv").open(newline="") as file:
        layers = tuple(
            LayerEstimate(
                each["Name"], each["NNG Operator"], {key: _integer(each[of]) for key, of in _OF_LAYER.items()}
            )
            for each in csv.DictReader(file)
        )
    totals = {key: _integer(row[column], unit) for key, (column, unit) in _TOTALS.items()}
    operators = _OPERATORS.search(messages)
    totals["operators"] = len(layers) if operators is None else int(operators[1])
    return Estimates("Vela 5.2.0", totals, layers)


def _integer(text: str, unit: float = 1) -> int:
    return round(float(text) * unit)
