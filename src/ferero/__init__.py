"""ferero finds the trade-off you ask for."""

__version__ = "0.1.0.dev0"
