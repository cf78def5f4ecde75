# SPDX-License-Identifier: Apache-2.0
"""Reader of `.pt2` archives that does not evaluate, import or unpickle anything."""
