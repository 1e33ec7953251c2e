"""What is told: the report model, its making and its HTML."""
