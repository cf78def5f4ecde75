# SPDX-License-Identifier: Apache-2.0
"""Rows of state and of aliases: caches, state that is not a buffer, and views that are outputs."""

from __future__ import annotations

from typing import Final

_PLACE: Final = ".nan_to_num(0, 3, 3).clamp(-9, 9).long()"
# Caches as models write them: `{s}` is state, a buffer.
CACHES: Final = (
    "{s@1+}.copy_(torch.cat([{s}[1:], {s}[:1] * 0.5]))",
    "{s@1+}.copy_({s}.roll(1, 0))",
    "{s@2+}[:, -1:] = {s}[:, :1] + 1",
    "{s@1+}[:-1] = {s}[1:].clone()",
    "{s@1+}[{I:x.shape[0];(2,)}] = {s}[:1] * 0.5 + 1",
    "{s@2+}[:, {I:x.shape[1];(1,)}] = {s}[:, -1:] + 1",
    "{s@1+}.index_put_(({I:x.shape[0];(1,)},), {s}[-1:] + 1)",
    "{s@1+}.index_copy_(0, {I:x.shape[0];(1,)}, {s}[:1] + 2)",
    "{s@1+}.scatter_({dim}, {I:x.shape[dim];tuple(x.shape)}, {num})",
    "{s@1+}.narrow(0, 0, 1).copy_({s}[-1:] + 1)",
    "{s}.mul_(0.5).add_({n~})",
    "{s}.lerp_({f~}, 0.25)",
    "{s} += {n~}",
    "{s}.copy_({n~})",
    "{s}.add_(1)",
    "{s}.copy_(torch.where({s} > 0, -{s}, {s} + 1))",
    "{s}[...] = {s} * 0.5 + 1",
    "{s@1+}[{s} > 1] = 0",
    "{s}.zero_()",
    "{s}.add_({s})",
    "torch.add({s}, 1, out={s})",
    "{s}.data.add_(1)",
    "{s}.detach().mul_(0.5)",
    "{s}.copy_({s1=} + 1)",
    "{s}[...], {s1=}[...] = {s1}.clone(), {s}.clone()",
    "{s@1+}[1:] = {s1=}[:-1].clone()",
    "for each in {s@1+}.unbind(0): each.add_(1)",
    "{s}.copy_(cond({s}.sum() > {num}, lambda a: a + 1, lambda a: a - 1, ({s}.clone(),)))",
    # a place that state determines
    f"{{s@1+}}.index_copy_(0, {{s}}.sum(){_PLACE}.reshape(1) % {{s}}.shape[0], {{s}}[:1] + 1)",
    f"{{s@1+}}.index_fill_(0, {{s}}.reshape(-1)[:1]{_PLACE} % {{s}}.shape[0], {{num}})",
    # statistics in training
    "F.batch_norm(torch.stack([{s@1}, {s} + 2]), {s}, {s1@1=}, training=True, momentum=0.3)",
    # another tensor in place of a buffer
    "{s} = {s} + {n~}",
    "{s} = {s} * 0.5 + 1",
    "{s@1+} = torch.cat([{s}[1:], {s}[:1] * 0.5])",
    "{s} = torch.where({s} > 0, -{s}, {s} + 1)",
)

# `{a}` is a tensor of the module that is not a buffer.
ATTRIBUTES: Final = (
    "{a} = {a} + {n~}",
    "{a} = {a} * 0.5 + 1",
    "{a} = torch.where({a} > 0, -{a}, {a} + 1)",
    "{a@1+} = {a}.roll(1, 0)",
    "{a} = torch.maximum({a}, {a} + 1)",
    "{a}.add_(1)",
    "{a}.copy_({n~})",
    "{a@1+}[0] = {num}",
)

# State that is not a tensor, or made by the first call.
HELD: Final = (
    "held(self, 'm{int:r(0, 1 << 20)}', lambda: {n} * 2) + {n1}",
    "held(self, 'm{int:r(0, 1 << 20)}', lambda: [{n} * 0.5])[0] - {n1}",
    "{n} + next(held(self, 'i{int:r(0, 1 << 20)}', lambda: itertools.count(1)))",
    "{n} * held(self, 'r{int:r(0, 1 << 20)}', lambda: random.Random(0)).randint(2, 9)",
    "{n} + len(held(Shared, 'l{int:r(0, 1 << 20)}', list)) + (Shared.l{int}.append(0) or 1)",
    "{n} + held(self, 'q{int:r(0, 1 << 20)}', lambda: collections.deque([3, 1, 2])).pop()",
    "{n} * (self.__dict__.update(n{int:r(0, 1 << 20)}=self.__dict__.get('n{int}', 0) + 1) or self.n{int})",
    "{n} + held(self, 'k{int:r(0, 1 << 20)}', dict).setdefault({n}.shape[:1], {num})",
)

# An output that shares memory with an input, a constant or state: `{e}`.
VIEWS: Final = (
    "{e}",
    "{e}[...]",
    "{e}.unsqueeze(0)",
    "{e@1+}[0]",
    "{e@1+}[1:]",
    "{e@2+}.mT",
    "{e}.reshape(-1)",
    "{e}.detach()",
    "{e}.view_as({e})",
    "{e@1+}.unbind(0)[-1]",
    "{e}.expand(2, *{e}.shape)",
    "{e}.contiguous()",
    "{e}.to({e}.dtype)",
)
