"""The live service: what people say is stored, honoured and shown; platforms call an API; workers train.

tables, database, migrations   what is stored, and where
interactions, wishes           what people did, and what they say of it
ledger, ledger_check           the append-only log of events, receipts, and how both are checked
jobs, worker, models           who trains what; which model is in service
serving                        what is recommended now
settings, demo                 how the service is set up
"""
