"""The viewer: a local page where a preference picks the policy."""
