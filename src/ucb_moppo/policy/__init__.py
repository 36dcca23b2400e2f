"""What acts: networks, running normalisation, actors of many policies, and a trained policy to deploy.

May import the root and numpy; neither JAX nor MuJoCo, so that a policy runs where nothing can be trained. Only a
policy that is to save itself asks `store` for it.
"""
