CREATE TABLE accounts (
  id TEXT PRIMARY KEY,
  username TEXT NOT NULL,
  username_key TEXT NOT NULL UNIQUE,
  password TEXT,
  role TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
  token_hash BLOB PRIMARY KEY,
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE settings (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (account, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE connections (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  api TEXT NOT NULL,
  base_url TEXT NOT NULL,
  models TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (account, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE installs (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  app TEXT NOT NULL,
  source TEXT NOT NULL,
  head TEXT NOT NULL,
  added_at INTEGER NOT NULL,
  PRIMARY KEY (account, app)
) STRICT, WITHOUT ROWID;

CREATE TABLE grants (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  app TEXT NOT NULL,
  plugin TEXT NOT NULL,
  capability TEXT NOT NULL,
  code BLOB NOT NULL,
  granted_at INTEGER NOT NULL,
  granted_by TEXT NOT NULL,
  PRIMARY KEY (account, app, plugin, capability)
) STRICT, WITHOUT ROWID;

CREATE TABLE store (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  app TEXT NOT NULL,
  plugin TEXT NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (account, app, plugin, name)
) STRICT;

CREATE TABLE store_size (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  app TEXT NOT NULL,
  plugin TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (account, app, plugin)
) STRICT, WITHOUT ROWID;

CREATE TABLE page_storage (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  app TEXT NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (account, app, name)
) STRICT;

CREATE TABLE assets (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  id TEXT NOT NULL,
  mime TEXT NOT NULL,
  name TEXT NOT NULL,
  size INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (account, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE asset_apps (
  account TEXT NOT NULL,
  asset TEXT NOT NULL,
  app TEXT NOT NULL,
  PRIMARY KEY (account, asset, app),
  FOREIGN KEY (account, asset) REFERENCES assets (account, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE activity (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  account TEXT,
  kind TEXT NOT NULL,
  caller TEXT NOT NULL,
  chain TEXT NOT NULL,
  trace TEXT NOT NULL,
  app TEXT,
  target TEXT NOT NULL,
  outcome TEXT NOT NULL,
  status INTEGER,
  bytes_sent INTEGER NOT NULL DEFAULT 0,
  bytes_received INTEGER NOT NULL DEFAULT 0,
  ms INTEGER,
  detail TEXT
) STRICT;

CREATE INDEX activity_app ON activity (account, app, id);
