"""``python -m ucb_moppo`` is ``ucb-moppo``."""

from ucb_moppo.cli.main import main

main()
