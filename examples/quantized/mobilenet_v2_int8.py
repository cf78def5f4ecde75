# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 with int8 weights and activations: torchao's PT2E, calibrated with a few images.

The weights and images are random, as in `examples/mobilenet_v2`: it shows compilation, not recognition.
"""

from __future__ import annotations

import mobilenet_v2
import torch
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

import delegatec


def build() -> delegatec.Model:
    """Returns the quantized network for one image: a scale per channel of weights, and per activation."""
    model = mobilenet_v2.build()
    graph = torch.export.export(model.module, model.example_inputs).module()
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(graph, quantizer)
    with torch.no_grad():
        for _ in range(2):
            prepared(torch.rand(1, 3, 224, 224) * 2 - 1)
    return delegatec.Model(convert_pt2e(prepared), model.example_inputs)
