"""Ready specs: the variants of the paper and a quickstart."""
