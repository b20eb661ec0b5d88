-- Two roles for PostgreSQL: the owner of the database makes and changes tables, the service only uses them, and
-- can add to the ledger, but not alter it. Run this as the owner after each upgrade, with psql:
--   create role assent_service login password '...';
--   \i rights.sql
grant usage on schema public to assent_service;
grant select, insert, update, delete on all tables in schema public to assent_service;
grant usage, select on all sequences in schema public to assent_service;
revoke update, delete, truncate on leaf, seal from assent_service;
