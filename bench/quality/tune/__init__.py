"""Searches the weights, depths and floors of a profile on judged questions, with cross-validation.

The service is queried once for the results of each leg. All profiles are then replayed offline by
the code of the service, thousands in the time of the queries.
"""
