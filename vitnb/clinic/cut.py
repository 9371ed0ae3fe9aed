"""Wrong ways to cut images into patches, and to put them back: functions of (images, patch_size), and embeddings."""
