"""Results: records of trained models, tables of their means, and how tables and charts are written."""
