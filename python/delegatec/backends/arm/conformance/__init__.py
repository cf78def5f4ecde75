# SPDX-License-Identifier: Apache-2.0
"""Which operators a TOSA specification has, and for which operands."""
