"""Systems under test: each turns a layout into a process and its traces into history rows."""
