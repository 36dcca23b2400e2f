"""What acts: networks, running normalisation, and a trained policy to deploy.

May import the root and numpy; neither JAX nor MuJoCo, so that a policy runs where nothing can be trained.
"""
