"""``python -m ucb_moppo`` is ``ucb-moppo``."""

from ucb_moppo.cli import main

main()
