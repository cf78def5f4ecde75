# SPDX-License-Identifier: Apache-2.0
"""What can be known of a value without running the program."""
