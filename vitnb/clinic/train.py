"""Wrong steps of a training: schedules, losses, gradients, parameter groups."""
