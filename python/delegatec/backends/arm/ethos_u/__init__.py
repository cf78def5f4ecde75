# SPDX-License-Identifier: Apache-2.0
"""Ethos-U: TOSA graphs compiled by Vela, Arm's compiler for these NPUs."""
