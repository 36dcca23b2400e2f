"""What is wanted, and how good a front is: weights and the division of their simplex, Pareto fronts and indicators.

May import the root; knows nothing of files, learning or the command line.
"""
