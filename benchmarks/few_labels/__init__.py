"""What ``benchmarks/labels.py`` is made of: one module for each of its sections."""
