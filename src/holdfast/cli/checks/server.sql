-- name: read_server
-- What a Postgres server says about itself and about the role that asks: its clock, its version, its rights.
select clock_timestamp() as now,
       current_setting('server_version') as version,
       current_user::text as role,
       coalesce(rolsuper, false) as is_super,
       coalesce(rolcreatedb or rolcreaterole, false) as is_strong
  from (select 1) one
  left join pg_roles on rolname = current_user
