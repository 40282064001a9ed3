ALTER TABLE grants ADD COLUMN scope TEXT NOT NULL DEFAULT '[]';
ALTER TABLE grants ADD COLUMN denied INTEGER NOT NULL DEFAULT 0;

CREATE TABLE kept_code (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  app TEXT NOT NULL,
  plugin TEXT NOT NULL,
  code BLOB NOT NULL,
  files TEXT NOT NULL,
  PRIMARY KEY (account, app, plugin)
) STRICT;

CREATE TABLE plugin_flags (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  app TEXT NOT NULL,
  plugin TEXT NOT NULL,
  enabled INTEGER NOT NULL,
  PRIMARY KEY (account, app, plugin)
) STRICT, WITHOUT ROWID;

CREATE TABLE plugin_secrets (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  app TEXT NOT NULL,
  plugin TEXT NOT NULL,
  name TEXT NOT NULL,
  origin TEXT NOT NULL,
  added_at INTEGER NOT NULL,
  PRIMARY KEY (account, app, plugin, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  app TEXT NOT NULL,
  day INTEGER NOT NULL,
  model_calls INTEGER NOT NULL DEFAULT 0,
  tokens INTEGER NOT NULL DEFAULT 0,
  network_bytes INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (account, app, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE budgets (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  app TEXT NOT NULL,
  model_calls INTEGER,
  tokens INTEGER,
  network_bytes INTEGER,
  disk_bytes INTEGER,
  PRIMARY KEY (account, app)
) STRICT, WITHOUT ROWID;

CREATE TABLE app_updates (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  app TEXT NOT NULL,
  plugin TEXT NOT NULL,
  from_version TEXT NOT NULL,
  to_version TEXT NOT NULL,
  noted_at INTEGER NOT NULL,
  error TEXT,
  PRIMARY KEY (account, app, plugin)
) STRICT, WITHOUT ROWID;

ALTER TABLE activity ADD COLUMN model TEXT;
ALTER TABLE activity ADD COLUMN tokens_in INTEGER;
ALTER TABLE activity ADD COLUMN tokens_out INTEGER;
ALTER TABLE activity ADD COLUMN cost REAL;

CREATE INDEX activity_trace ON activity (account, trace, id);
CREATE INDEX activity_caller ON activity (account, caller, kind, id);
