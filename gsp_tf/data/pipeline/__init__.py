"""From an image set to batches: the sampler, the windows of the images, `tf.data`."""
