"""The paper's own strategies and algorithms, on tables over 2^history selections."""
