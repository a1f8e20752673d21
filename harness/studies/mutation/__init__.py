"""`biplane mutate`: bugs that nobody thought of, drawn by seed from the source.

    operators   where a source file can be changed, and how: comparisons, conditions, branches,
                calls left out, calls exchanged
    purity      which expressions can be evaluated twice, so that old and new can be compared
    overlay     a copy of the broker's package with one such change, or with every place watched;
                brokers that run it tell what was reached and where a change made a difference
    survey      which scenario could notice which mutant at all
    power       what notices each: scenarios and their rules, unit tests; what survives
    study       all of that over one ledger
    page        the page

Hand-picked bugs (`nodes.mutants`) show that a rule can fire; these show what no rule looks at.
"""
