"""`biplane compare`: what do planes (or systems) change? Rounds, their figures, one page.

rounds    plays scenarios again and again, arms in turn, each round a run of its own
figures   the numbers of one round and arm, from its stored history and results
page      medians, ranges and ratios over the rounds, in Markdown with a picture
"""

from harness.compare.page import write_page
from harness.compare.rounds import Comparison, play_comparison

__all__ = ["Comparison", "play_comparison", "write_page"]
