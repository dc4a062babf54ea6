"""The experiments, reports and command line around ferero."""

__version__ = "0.1.0.dev0"
