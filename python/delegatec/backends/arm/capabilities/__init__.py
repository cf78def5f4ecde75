# SPDX-License-Identifier: Apache-2.0
"""Which TOSA operators Ethos-U supports."""
