"""Ways to measure a set: profiles with changes, and modified questions."""
