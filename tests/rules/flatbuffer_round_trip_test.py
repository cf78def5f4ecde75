# SPDX-License-Identifier: Apache-2.0
"""A generated module builds a buffer and reads it back."""

from __future__ import annotations

import flatbuffers
from test_schemas import drawing


def built() -> bytes:
    """A drawing of a circle around (1, 2) and a triangle."""
    circle = drawing.CircleT(center=drawing.PointT(x=1.0, y=2.0), radius=3.0)
    triangle = drawing.PolygonT(corners=[drawing.PointT(x=float(x)) for x in range(3)])
    shapes = [
        drawing.ItemT(shapeType=drawing.Shape.Circle, shape=circle),
        drawing.ItemT(shapeType=drawing.Shape.Polygon, shape=triangle),
    ]
    builder = flatbuffers.Builder()
    builder.Finish(drawing.DrawingT(shapes=shapes).Pack(builder), file_identifier=b"DRAW")
    return bytes(builder.Output())


def test_object_api() -> None:
    circle, polygon = drawing.DrawingT.InitFromPackedBuf(built()).shapes
    assert circle.shapeType == drawing.Shape.Circle
    assert (circle.shape.center.x, circle.shape.center.y, circle.shape.radius) == (1.0, 2.0, 3.0)
    assert [corner.x for corner in polygon.shape.corners] == [0.0, 1.0, 2.0]


def test_reader() -> None:
    buffer = built()
    assert drawing.Drawing.DrawingBufferHasIdentifier(buffer, 0)
    root = drawing.Drawing.GetRootAs(buffer)
    assert root.ShapesLength() == 2
    assert root.Shapes(1).ShapeType() == drawing.Shape.Polygon
