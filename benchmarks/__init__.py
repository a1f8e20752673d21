"""What the bundled broker reaches: `python -m benchmarks.<name>`. Every load is bounded in time."""
