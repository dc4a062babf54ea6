"""The experiments, reports and command line around ferero."""
