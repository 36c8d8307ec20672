"""The lexical leg, and the resolution of misspelt names in questions."""
