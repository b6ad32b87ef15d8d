"""From image sets to batches: the sampler, image windows and pipelines."""
