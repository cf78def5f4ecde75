# SPDX-License-Identifier: Apache-2.0
"""Profiles of programs: times that a runtime recorded, by operation, module and line of the model."""
