# SPDX-License-Identifier: Apache-2.0
"""Tests of schema_json."""

from __future__ import annotations

import json

import torch
from torch._export.serde import schema
from torch._export.serde.serialize import _dict_to_dataclass, serialize

from delegatec.frontend.schema_json import from_json


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(1, 4, 3)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x: torch.Tensor, *, flag: bool) -> dict[str, torch.Tensor]:
        y = self.convolution(x).split(2, dim=1)
        z = torch.cond(y[0].sum() > 0, lambda a: a.relu(), lambda a: a.neg(), (y[0],))
        return {"a": torch.cat([z, y[1]]) * self.scale, "b": torch.where(x > 0, x, float("-inf"))}


def test_same_objects_as_torchs_own_reader() -> None:
    batch = torch.export.Dim("batch", max=8)
    program = torch.export.export(
        Net().eval(),
        (torch.ones(2, 1, 5, 5),),
        {"flag": True},
        dynamic_shapes={"x": {0: batch}, "flag": None},
        strict=False,
    )
    data = json.loads(serialize(program).exported_program)
    assert from_json(schema.ExportedProgram, data) == _dict_to_dataclass(schema.ExportedProgram, data)


def test_unknown_keys_are_ignored_and_absent_ones_have_defaults() -> None:
    data = {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": None, "later": 1}
    assert from_json(schema.PayloadMeta, data) == schema.PayloadMeta("weight_0", True, False, None)
