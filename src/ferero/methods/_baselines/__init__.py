"""Methods of others, for comparison; they know a ray, or only the order of the losses."""
