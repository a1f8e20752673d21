"""The page's sections, in the order in which they are read. Each is a function of a `Story`."""
