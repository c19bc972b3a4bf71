"""Is it right? References, inputs, judgement and hints. Imports no framework and nothing of `run`."""
