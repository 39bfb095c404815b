"""A session on one space: carries commits out and frames in, over any number of connections."""
