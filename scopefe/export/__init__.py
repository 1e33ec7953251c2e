"""What other systems are given: recipes as SQL, Python and specs."""
