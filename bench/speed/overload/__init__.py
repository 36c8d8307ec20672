"""Calls above capacity: an open loop at multiples of the measured capacity."""
