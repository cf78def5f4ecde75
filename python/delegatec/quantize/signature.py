# SPDX-License-Identifier: Apache-2.0
"""Scales of quantized inputs and outputs in the JSON of a program's signature."""

from __future__ import annotations

import json
from typing import Any

from delegatec.edge.quantization.scale import Quantization
from delegatec.quantize.flow import QuantizedModel


def add_quantization(signature: str, model: QuantizedModel) -> str:
    """Returns a signature with `"quantization": {"scale", "zero_point", "min", "max"}` of its values."""
    content = json.loads(signature)
    for name, method in content["methods"].items():
        inputs = model.inputs.get(name, {})
        for entry in method["inputs"]:
            if entry["name"] in inputs:
                entry["quantization"] = _json(inputs[entry["name"]])
        results = [entry for entry in method["outputs"] if "kind" not in entry]
        for position, quantization in model.outputs.get(name, {}).items():
            results[position]["quantization"] = _json(quantization)
    return json.dumps(content, indent=1) + "\n"


def _json(to: Quantization) -> dict[str, Any]:
    return {
        "scale": to.scale,
        "zero_point": to.zero_point,
        "min": to.low,
        "max": to.high,
    }
