"""The benchmarks are in no wheel: they are found beside the tests, after everything installed.

(pytest's ``pythonpath`` would put the sources before a mutant's copy of them.)
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
