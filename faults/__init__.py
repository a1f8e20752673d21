"""What goes wrong. One fault a file; `FAULTS` is the registry; a `Plan` says which, when.

    plan = Plan.load(path)            # or Plan.of(seed, [Entry(...), ...]), or mixture(seed, ...)
    for entry, fault in plan.build():
        fault.inject(ctx); ...; fault.heal(ctx)

See `faults.protocol` for the contract and for all that a fault may touch.
"""

from faults.errors import PlanError
from faults.mixture import mixture
from faults.plan import Plan
from faults.registry import FAULTS, build

__all__ = ["FAULTS", "Plan", "PlanError", "build", "mixture"]
