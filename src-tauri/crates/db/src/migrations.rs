use rusqlite::{Connection, TransactionBehavior};

/// Step `n` makes format `n + 1` of format `n`. What a released program wrote is never edited here, only added to.
pub(crate) const STEPS: &[&str] = &[
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
];

/// Brings a database of format `version` up to the last one. Each step is done whole or not at all.
pub(crate) fn run(connection: &mut Connection, version: i64) -> rusqlite::Result<()> {
    for (step, sql) in STEPS.iter().enumerate().skip(version.max(0) as usize) {
        let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        work.execute_batch(sql)?;
        work.pragma_update(None, "user_version", step as i64 + 1)?;
        work.commit()?;
    }
    Ok(())
}
