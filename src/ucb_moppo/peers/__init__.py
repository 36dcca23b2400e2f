"""Others' methods, and users' own, behind one protocol: trained, counted, evaluated and recorded like ours.

May import the root and everything below `engine`. Some need the extra `peers`
and are imported when they are made.
"""
