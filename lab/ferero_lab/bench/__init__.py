"""Benchmarks: each bar of the project as a number that a command measures."""
