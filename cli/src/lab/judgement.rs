//! Figures held against limits, and against an earlier report.

use comfy_table::{Table, presets};
use lockyard_benches::report::{Comparison, Estimate, Report};

use super::report;
use crate::args::JudgeArgs;
use crate::exit::{Exit, Failure};
use crate::output::{print, say};

/// What figures are held against: read before anything is measured.
pub(super) struct Judgement<'a> {
    args: &'a JudgeArgs,
    baseline: Option<Report>,
}

impl<'a> Judgement<'a> {
    pub(super) fn read(args: &'a JudgeArgs) -> Result<Self, Failure> {
        let baseline = args.baseline.as_deref().map(report::read).transpose()?;
        Ok(Self { args, baseline })
    }

    /// Says what changed and which limits are not kept.
    pub(super) fn pronounce(&self, report: &Report) -> Exit {
        if let Some(before) = &self.baseline {
            tell(&report.since(before));
        }
        let breaches: Vec<String> = self.args.thresholds.iter().flat_map(|limit| limit.breaches(report)).collect();
        breaches.iter().for_each(say);
        if breaches.is_empty() { Exit::Success } else { Exit::ThresholdFailed }
    }
}

fn tell(comparison: &Comparison) {
    for doubt in &comparison.doubts {
        say(format_args!("the baseline is of other circumstances: {doubt}"));
    }
    let Comparison { changes, unchanged, .. } = comparison;
    if !changes.is_empty() {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["SINCE THE BASELINE", "BACKEND", "FIGURE", "WAS", "IS", ""]);
        for change in changes {
            let (was, is) = (spread(&change.before), spread(&change.after));
            let direction = change.direction.as_str();
            table.add_row([change.scenario.as_str(), &change.backend, change.figure, &was, &is, direction]);
        }
        print(table.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>().join("\n"));
    }
    say(format_args!("since the baseline: {} figures changed, {unchanged} did not beyond the noise", changes.len()));
}

fn spread(Estimate { est, lo, hi, .. }: &Estimate) -> String {
    format!("{est} [{lo}, {hi}]")
}
