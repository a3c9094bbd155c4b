//! The command line of `lockyard compare`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{ArgAction, Args, ValueEnum};
use lockyard_benches::Scenario;
use lockyard_benches::report::Threshold;

use super::TargetArgs;
use crate::source::SourceArgs;

const COMPARE_EXIT_CODES: &str = "\
Exit codes: 0 done; 99 a threshold is not kept; 100 a conformance check
failed; 130 or 143 stopped by a signal, with a report of what was measured
until then; 64 69 77 78 as of \"lockyard run\" when there is nothing to compare.";

/// Check and measure backends side by side, and write a report.
///
/// Without --backend every backend that can be started on this host takes part; the others are named with the reason
/// and how to install them. Servers are started on free ports of the loopback interface and end with the command.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXIT_CODES)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,

    /// How much to measure: quick takes at most 5 minutes on two cores, standard at most 30
    #[arg(long, value_name = "SUITE", default_value = "quick")]
    pub(crate) suite: SuiteSize,

    /// Measure only this scenario of the suite; may be given several times
    #[arg(long, value_name = "ID", value_parser = PossibleValuesParser::new(Scenario::IDS))]
    pub(crate) scenario: Vec<String>,

    /// The seed of the order in which everything is measured [default: a random one, written into the report]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// The folder for report.json, report.md and report.html
    #[arg(long, value_name = "DIR", default_value = "lockyard-report")]
    pub(crate) out: PathBuf,

    /// Do not check the backends before they are measured
    #[arg(long)]
    pub(crate) skip_conformance: bool,

    #[command(flatten)]
    pub(crate) exports: ExportArgs,

    /// Write what the conformance suite found to this file, as JUnit XML
    #[arg(long, value_name = "FILE", conflicts_with = "skip_conformance")]
    pub(crate) export_junit: Option<PathBuf>,

    /// Write the latencies of every trial to this file, as an HDR histogram log (V2, values in nanoseconds)
    #[arg(long, value_name = "FILE")]
    pub(crate) export_hdr: Option<PathBuf>,

    /// Measure also with so many cycles due a second, timed from when each was due; in the larger suites 200 unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) rate: Option<u64>,

    #[command(flatten)]
    pub(crate) judged: JudgeArgs,

    /// Say more
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// Measure as told on stdin, one order a line, and answer on stdout.
#[derive(Debug, Args)]
pub(crate) struct BenchWorkerArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
}

/// How much `compare` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SuiteSize {
    Quick,
    Standard,
    Full,
}

/// Further files to write a report to.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Write the page to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) export_html: Option<PathBuf>,

    /// Write the data to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) export_json: Option<PathBuf>,

    /// Write the report to this file, as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) export_markdown: Option<PathBuf>,

    /// Write the figures to this file, as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) export_csv: Option<PathBuf>,
}

/// What the figures are held against.
#[derive(Debug, Args)]
pub(crate) struct JudgeArgs {
    /// A limit that has to be kept, else the exit code is 99: BACKEND.SCENARIO.FIGURE<LIMIT, such as
    /// "redis.handoff.p99_us<5000" or "etcd.contended[contenders=8,clients=own].floor_ratio>=1.2"; may be repeated
    #[arg(long = "threshold", value_name = "EXPR")]
    pub(crate) thresholds: Vec<Threshold>,

    /// The report.json of an earlier comparison: tells which figures have changed since
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
}
