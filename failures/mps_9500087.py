"""Seed 9500087, mps, wrong: call 0 of forward, output 7: 1 of 1 elements, at [0] nan for 0.0

x1: int64[3] dyadic seed 1042674849
self.c0: int64[3, 2] normal seed 205097322
self.c1: float32[2, 1, 7] normal seed 636382715
x2: float32[1] normal seed 509454075
self.c2: float32[1, 1, 3] dyadic seed 293507313
x3: bool[2, 1, 1] dyadic seed 277271249
self.c3: int64[1] index 3 seed 984264453
v0 = torch.gather(x1, -1, x1.argmin(-1, keepdim=True))
v0.floor_()
v2 = torch.topk(x1, 2, sorted=True)[0]
v0[0].copy_(v0[-1])
v4 = x1.argmax(-1, keepdim=True).expand_as(x1) * 2
v5 = self.c0.select(1, 1)
v6 = F.group_norm(self.c1.clamp(-4, 4), 1, x2)
v6.view(-1)[::2].add_(-0.0)
v8 = torch.topk(self.c1, 1)[0]
v9 = v0.reshape(-1)
v10 = torch.max(v5)
v11 = F.conv_transpose1d(v8, self.c2, stride=1, padding=1)
v12 = torch.floor(x2)
v13 = torch.sigmoid(v5)
v14 = F.cosine_similarity(x2, v12, -1)
v15 = torch.gather(v2, -1, v2.argmin(-1, keepdim=True))
v16 = torch.nanmean(v14, -1, False)
v17 = torch.masked_scatter(v8, x3, v8)
v18 = torch.index_put(v13, (self.c3,), v13[:1])
v19 = torch.pow(v9, -math.inf)
v20 = self.c3.detach()
return v4, v10, v11, v15, v16, v17, v18, v19, v20, v2, v0
"""

import collections
import itertools
from math import inf, nan
import math
import random
import types

import torch
from torch.nn import functional as F
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan as torch_scan
from torch._higher_order_ops.while_loop import while_loop as torch_while_loop


def cond(p, f, g, args):
    return torch.cond(p, f, g, args) if torch.compiler.is_exporting() else (f if p else g)(*args)


def while_loop(goes_on, body, state):
    if torch.compiler.is_exporting():
        return torch_while_loop(goes_on, body, state)
    while goes_on(*state):
        state = body(*state)
    return [each.clone() for each in state]


def map(f, xs, *args):
    if torch.compiler.is_exporting():
        return torch_map(f, xs, *args)
    return torch.stack([f(x, *args) for x in xs])


def scan(f, init, xs):
    if torch.compiler.is_exporting():
        return torch_scan(f, init, xs)
    ys = []
    for x in xs:
        init, y = f(init, x)
        ys.append(y)
    return init, torch.stack(ys)


def held(owner, name, make):
    if not hasattr(owner, name):
        setattr(owner, name, make())
    return getattr(owner, name)


class Shared:
    pass


class Generated(torch.nn.Module):
    def __init__(self, c0, c1, c2, c3):
        super().__init__()
        self.register_buffer("c0", c0)
        self.register_buffer("c1", c1)
        self.register_buffer("c2", c2)
        self.register_buffer("c3", c3)

    def forward(self, x1, x2, x3):
        v0 = torch.gather(x1, -1, x1.argmin(-1, keepdim=True))
        v0.floor_()
        v2 = torch.topk(x1, 2, sorted=True)[0]
        v0[0].copy_(v0[-1])
        v4 = x1.argmax(-1, keepdim=True).expand_as(x1) * 2
        v5 = self.c0.select(1, 1)
        v6 = F.group_norm(self.c1.clamp(-4, 4), 1, x2)
        v6.view(-1)[::2].add_(-0.0)
        v8 = torch.topk(self.c1, 1)[0]
        v9 = v0.reshape(-1)
        v10 = torch.max(v5)
        v11 = F.conv_transpose1d(v8, self.c2, stride=1, padding=1)
        v12 = torch.floor(x2)
        v13 = torch.sigmoid(v5)
        v14 = F.cosine_similarity(x2, v12, -1)
        v15 = torch.gather(v2, -1, v2.argmin(-1, keepdim=True))
        v16 = torch.nanmean(v14, -1, False)
        v17 = torch.masked_scatter(v8, x3, v8)
        v18 = torch.index_put(v13, (self.c3,), v13[:1])
        v19 = torch.pow(v9, -math.inf)
        v20 = self.c3.detach()
        return (v4, v10, v11, v15, v16, v17, v18, v19, v20, v2, v0,)


x1 = torch.tensor([4, -6, 2], dtype=torch.int64).reshape((3,))
c0 = torch.tensor([3, 6, 0, -2, -1, 4], dtype=torch.int64).reshape((3, 2))
c1 = torch.tensor([0.19585764408111572, 0.051064785569906235, 1.2223719358444214, -0.52983558177948, 2.2599151134490967, 1.4206454753875732, -1.112593412399292, 0.031976211816072464, 1.0925861597061157, -1.403882384300232, 2.426067590713501, 0.5789249539375305, 0.19050757586956024, -0.611160159111023], dtype=torch.float32).reshape((2, 1, 7))
x2 = torch.tensor([1.167879581451416], dtype=torch.float32).reshape((1,))
c2 = torch.tensor([2.75, -1.0, -3.5], dtype=torch.float32).reshape((1, 1, 3))
x3 = torch.tensor([True, True], dtype=torch.bool).reshape((2, 1, 1))
c3 = torch.tensor([1], dtype=torch.int64).reshape((1,))
made = Generated(c0, c1, c2, c3)
print(made.forward(x1, x2, x3,))
