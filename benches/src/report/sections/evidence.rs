//! From checks of the suite to what may be said of a backend.

use crate::report::anchors;
use crate::report::model::{Backend, Check, Report};
use crate::report::table::{Cell, Tone};

/// What a group of checks says about one backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding<'a> {
    /// All that apply passed; the first of them.
    Kept(&'a str),
    /// This one failed.
    Broken(&'a str),
    /// None applies: what it asks is not promised, or cannot happen there.
    NotApplicable(&'a str),
    /// The checks were not run, or the fault could not be made.
    NotTested(Option<&'a str>),
}

impl Finding<'_> {
    /// The row that shows it.
    pub(super) fn anchor(self) -> Option<String> {
        match self {
            Self::Kept(check) | Self::Broken(check) | Self::NotApplicable(check) => Some(anchors::check(check)),
            Self::NotTested(check) => check.map(anchors::check),
        }
    }

    /// The cell, with its link. `broken` is what a failure means.
    pub(super) fn cell(self, broken: &str) -> Cell {
        let cell = match self {
            Self::Kept(_) => Cell::toned("ok", Tone::Good),
            Self::Broken(_) => Cell::toned(broken, Tone::Bad),
            Self::NotApplicable(_) => Cell::toned("n.a.", Tone::Faint),
            Self::NotTested(_) => Cell::toned("not tested", Tone::Faint),
        };
        match self.anchor() {
            Some(anchor) => cell.shown_by(anchor),
            None => cell,
        }
    }
}

/// What the checks of these names say about a backend.
pub(super) fn finding<'a>(report: &'a Report, backend: &Backend, names: &[&str]) -> Finding<'a> {
    let suite = report.conformance.iter().find(|suite| suite.backend == backend.id);
    let checks = suite.map_or(&[][..], |suite| suite.checks.as_slice());
    let found: Vec<&Check> = checks.iter().filter(|check| names.contains(&check.name.as_str())).collect();
    let of = |outcome: &str| found.iter().find(|check| check.outcome == outcome).map(|check| check.name.as_str());
    if let Some(failed) = of("failed") {
        return Finding::Broken(failed);
    }
    if let Some(passed) = of("passed") {
        return Finding::Kept(passed);
    }
    // A backend without a server has no links to cut and no server to kill: nothing was left out.
    let in_process = matches!(backend.kind.as_str(), "memory" | "file");
    let left_out = |check: &&&Check| check.reason.as_deref().is_none_or(|reason| reason.starts_with("the harness"));
    match (found.iter().find(left_out), found.first()) {
        (Some(check), _) if !in_process => Finding::NotTested(Some(&check.name)),
        (_, Some(check)) => Finding::NotApplicable(&check.name),
        (_, None) => Finding::NotTested(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Conformance;
    use crate::report::samples;

    fn found<'a>(report: &'a Report, kind: &str, names: &[&str]) -> Finding<'a> {
        let mut backend = samples::backend("redis");
        kind.clone_into(&mut backend.kind);
        finding(report, &backend, names)
    }

    #[test]
    fn what_did_not_run_is_no_success() {
        let ignored = |name: &str, reason: &str| Check::new(name, "ignored", Some(reason.to_owned()), 0.0);
        let mut report = samples::report(1.0, 1.0);
        let checks = vec![
            Check::new("a::passed", "passed", None, 0.0),
            Check::new("a::failed", "failed", Some("two".to_owned()), 0.0),
            ignored("a::none", "no capability: fencing"),
            ignored("a::cannot", "the harness cannot freeze the server"),
        ];
        report.conformance = vec![Conformance::new("redis", checks)];
        let redis = |names: &[&str]| found(&report, "redis", names);
        assert_eq!(redis(&["a::passed", "a::none"]), Finding::Kept("a::passed"));
        assert_eq!(redis(&["a::passed", "a::failed"]), Finding::Broken("a::failed"));
        assert_eq!(redis(&["a::none"]), Finding::NotApplicable("a::none"));
        assert_eq!(redis(&["a::none", "a::cannot"]), Finding::NotTested(Some("a::cannot")));
        assert_eq!(redis(&["a::other"]), Finding::NotTested(None));
        assert_eq!(found(&report, "memory", &["a::cannot"]), Finding::NotApplicable("a::cannot"));
        report.conformance.clear();
        assert_eq!(found(&report, "redis", &["a::passed"]), Finding::NotTested(None));
    }
}
