"""Searches the weights, depths and floors of a profile on judged questions, with held-out folds.

The service is queried once for the results of each leg. All profiles are then ranked offline from
these lists, by the code of the service: thousands in the time of the queries.
"""
