"""What the gates of a spec cost and bring: the whole universe scored, and the pool held against it."""
