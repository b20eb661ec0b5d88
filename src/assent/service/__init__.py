"""The live service: what people say is stored, honoured and shown; platforms call an API; workers train.

tables, database, migrations   what is stored, and where
interactions, wishes           what people did, and what they say of it
recorder                       wishes of one moment are stored together
ledger, receipts, ledger_check the append-only log of events, receipts, and how both are checked
jobs, worker, states, models   who trains what; which wishes that honours; which model is in service
serving                        what is recommended now
settings, demo, backup         how the service is set up, tried out and kept
"""
