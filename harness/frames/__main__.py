"""``python -m harness.frames config.json``: see `harness.frames.proxy`."""

from __future__ import annotations

import sys

from harness.frames.proxy import main

sys.exit(main(sys.argv[1:]))
