"""What the features brought: downstream learners, metrics, seeds."""
