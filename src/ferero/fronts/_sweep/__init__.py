"""The parts of `ferero.sweep`: what a worker does, who does it, what is kept on disk, and who keeps watch."""
