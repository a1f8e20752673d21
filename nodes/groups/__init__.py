"""Consumer groups: the classic protocol's coordinator and its offsets log."""
