"""What the same encoder finds if it is given other texts of the same segments."""
