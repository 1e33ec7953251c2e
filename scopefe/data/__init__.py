"""What a search is applied to: sources, kinds, splits, the column store."""
