//! The command line of `lockyard report`.

use std::path::PathBuf;

use clap::Args;

use super::{ExportArgs, JudgeArgs};

const REPORT_EXIT_CODES: &str = "Exit codes: 0 done; 99 a threshold is not kept; 64 a file is no report.";

/// Render a report again from its JSON, without running anything.
#[derive(Debug, Args)]
#[command(after_help = REPORT_EXIT_CODES)]
pub(crate) struct ReportArgs {
    /// The report.json of a comparison
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The folder for report.md and report.html [default: that of FILE]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) exports: ExportArgs,

    #[command(flatten)]
    pub(crate) judged: JudgeArgs,
}
