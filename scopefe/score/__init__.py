"""What each candidate is worth: baseline, FeatureBoost, halving, attribution."""
