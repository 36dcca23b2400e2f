"""Makes ``probe_envs`` importable by name, as a user's own module of environments is."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
