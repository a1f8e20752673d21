"""Where processes run: on loopback, or in containers."""
