"""A running cluster: nodes, links, what is true in it, and what may be asked of it."""
