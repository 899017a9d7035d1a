"""A task, followed to its end through whatever breaks."""
