"""Proximal policy optimisation with a vector reward: its settings, its mathematics and one update."""
