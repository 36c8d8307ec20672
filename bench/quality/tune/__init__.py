"""Searches for the weights, depths and floors of a profile, on judged questions, and says how sure.

The service is asked once for what each leg finds; all else is worked out here, by the code that
serves: thousands of profiles are tried in the time that asking takes.
"""
