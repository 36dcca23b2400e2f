"""The viewer: a local page where a preference picks the policy.

May import every room but `cli`; its own imports are optional installs.
"""
