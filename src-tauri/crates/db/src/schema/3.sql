ALTER TABLE connections ADD COLUMN preset TEXT;
ALTER TABLE connections ADD COLUMN prompt_format TEXT;

CREATE TABLE speech_endpoints (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  base_url TEXT NOT NULL,
  model TEXT,
  voice TEXT,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (account, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE model_overrides (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  ref TEXT NOT NULL,
  context_window INTEGER,
  price TEXT,
  PRIMARY KEY (account, ref)
) STRICT, WITHOUT ROWID;

CREATE TABLE model_access (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  app TEXT NOT NULL,
  models TEXT NOT NULL,
  PRIMARY KEY (account, app)
) STRICT, WITHOUT ROWID;

-- app: '' for the launcher itself, '*' for apps that were removed, which still count over all.
CREATE TABLE spend (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  app TEXT NOT NULL,
  day INTEGER NOT NULL,
  priced_calls INTEGER NOT NULL DEFAULT 0,
  unpriced_calls INTEGER NOT NULL DEFAULT 0,
  tokens_in INTEGER NOT NULL DEFAULT 0,
  tokens_out INTEGER NOT NULL DEFAULT 0,
  images INTEGER NOT NULL DEFAULT 0,
  speech_ms INTEGER NOT NULL DEFAULT 0,
  cost_micros INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (account, day, app)
) STRICT, WITHOUT ROWID;

-- app: '' for the limits over all. span: 'day' or 'month'. NULL: no limit.
CREATE TABLE spend_limits (
  account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  app TEXT NOT NULL,
  span TEXT NOT NULL,
  cost_micros INTEGER,
  tokens INTEGER,
  images INTEGER,
  speech_ms INTEGER,
  PRIMARY KEY (account, app, span)
) STRICT, WITHOUT ROWID;
