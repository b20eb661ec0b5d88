"""The pages of people and of the operator: drawn here, without scripts, from one catalogue of texts."""
