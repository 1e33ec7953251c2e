"""What is kept: selected features with their fitted state."""
