"""How well, and how cheaply, training is steered: the parts of ``ferero bench steer``, one idea a file."""
