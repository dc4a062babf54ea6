"""`ferero.minimize` beside SLSQP, trust-constr and IPOPT on smooth problems: ``ferero bench solver``."""
