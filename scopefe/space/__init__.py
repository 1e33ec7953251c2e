"""What could be made: expressions, pairs, universe, scope, pool, graph."""
