//! Logs: a file per day under the home, and what matters on standard error.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::redact::Redacting;

/// Days of log files kept.
const KEEP: usize = 7;

/// Starts logging to `<home>/logs` at `level`, and warnings to standard error. What is not yet written is written when
/// the guard is dropped.
pub fn start(home: &Path, level: &str) -> Result<WorkerGuard, String> {
    let folder = home.join("logs");
    // Only this user may look in: the setup link stands in the log until it is used.
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(|e| format!("the log folder {} cannot be made: {e}", folder.display()))?;
    let file = tracing_appender::rolling::Builder::new()
        .rotation(tracing_appender::rolling::Rotation::DAILY)
        .filename_prefix("chrysalis")
        .filename_suffix("log")
        .max_log_files(KEEP)
        .build(&folder)
        .map_err(|e| format!("the log file in {} cannot be written: {e}", folder.display()))?;
    let (writer, guard) = tracing_appender::non_blocking(file);
    let level: LevelFilter = level.parse().unwrap_or(LevelFilter::INFO);
    // Libraries' own chatter can hold what passes through them.
    let quiet = |level: LevelFilter| {
        Targets::new().with_default(level).with_targets(
            [
                "hyper",
                "h2",
                "reqwest",
                "rustls",
                "hyper_util",
                "zbus",
                "wry",
                "tao",
                "tauri",
            ]
            .map(|t| (t, LevelFilter::WARN.min(level))),
        )
    };
    let to_file = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(move || Redacting(writer.clone()))
        .with_filter(quiet(level));
    let to_screen = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_writer(|| Redacting(std::io::stderr()))
        .with_filter(quiet(LevelFilter::WARN.min(level)));
    // A second start in one process (tests) keeps the first one's.
    let _ = tracing_subscriber::registry().with(to_file).with(to_screen).try_init();
    Ok(guard)
}
