"""How the tables came to be, one file per change: `assent.service.database` applies them in order."""
