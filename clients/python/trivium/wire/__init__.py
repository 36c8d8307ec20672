"""Between messages and values: channels, requests, responses."""
