"""The parts of ``ferero bench methods``."""
