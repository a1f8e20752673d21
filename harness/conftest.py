"""`pytest harness/` loads biplane's plugin from here, and nothing else does."""

pytest_plugins = ["harness.plugin"]
