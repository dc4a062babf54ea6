"""A bilingual speech recogniser: features, a conformer, CTC and CPC losses, decoding."""
