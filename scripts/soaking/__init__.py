"""The soak: every generated test with seed after seed, for as long as one likes."""
