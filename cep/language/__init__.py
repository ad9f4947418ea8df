"""The language: its syntax, and one module for each dialect. Text becomes the rules of the plan."""
