"""PD-MORL (Basaklar, Gumussoy and Ogras, ICLR 2023) in its form for Box actions, MO-TD3-HER."""

from ucb_moppo.peers.pdmorl.peer import PDMORL

__all__ = ["PDMORL"]
