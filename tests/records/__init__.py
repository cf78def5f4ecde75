# SPDX-License-Identifier: Apache-2.0
"""Records of measurements, with which tests compare; pages with all of them; summaries in docs/."""
