//! `lockyard compare`: backends checked and measured side by side.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use indicatif::MultiProgress;
use lockyard::LockUrl;
use lockyard_benches::report::{Check, Conformance, Report, Skipped, Tool};
use lockyard_benches::{Plan, Suite, Target};
use lockyard_conformance::CheckOutcome;

use super::conformance;
use super::goals;
use super::interrupt::Interrupt;
use super::judgement::Judgement;
use super::measuring::Fleet;
use super::progress::Progress;
use super::report;
use super::suite::{self, Findings, Selection, Trouble};
use super::targets::{self, Candidate};
use crate::args::{CompareArgs, SuiteSize};
use crate::exit::{Exit, Failure};
use crate::output::{print, say};

/// What the suite takes on one backend with a server, about.
const CHECKING: Duration = Duration::from_secs(20);

pub(crate) async fn compare(args: CompareArgs) -> Result<Exit, Failure> {
    let candidates = targets::chosen(&args.targets)?;
    let judgement = Judgement::read(&args.judged)?;
    let interrupt = Interrupt::listen()?;
    let plan = plan(&args)?;
    let Some(fleet) = interrupt.unless(assemble(&candidates)).await else { return Ok(stopped(&interrupt)) };
    introduce(&candidates, &fleet)?;
    if cfg!(debug_assertions) {
        say("this is an unoptimised build: the figures say little, build with --release");
    }
    say(estimate(&args, &plan, &fleet.targets));
    let findings = if args.skip_conformance { Vec::new() } else { check(&candidates, &fleet, &interrupt).await };
    if interrupt.signal().is_some() {
        end(fleet).await;
        say("stopped before anything was measured: no report was written");
        return Ok(stopped(&interrupt));
    }
    let watcher = Watcher { progress: Progress::new("measuring"), interrupt: interrupt.clone() };
    let measured = lockyard_benches::run(&plan, &fleet.targets, &watcher).await;
    watcher.progress.finish();
    let tool = Tool::new(env!("CARGO_PKG_VERSION"), option_env!("LOCKYARD_GIT_SHA").unwrap_or("unknown"));
    let mut report = Report::new(tool, &command(&args, plan.seed), &plan, &measured);
    report.skipped.extend(fleet.skipped.iter().cloned());
    report.conformance = findings.iter().filter(|found| !found.results.is_empty()).map(results).collect();
    end(fleet).await;
    report::write(&report, &args.out, &args.exports)?;
    if let Some(file) = &args.export_hdr {
        let log = measured.to_hdr().map_err(Failure::internal)?;
        conformance::write_file(file, &log)?;
    }
    if let Some(file) = &args.export_junit {
        conformance::write_junit(file, &findings)?;
    }
    print(goals::table(&report));
    say(format_args!("the report is in {}: report.html, report.md, report.json", args.out.display()));
    let judged = judgement.pronounce(&report);
    Ok(match interrupt.signal() {
        Some(signal) => signal.into(),
        None if findings.iter().any(Findings::failed) => Exit::CheckFailed,
        None => judged,
    })
}

fn plan(args: &CompareArgs) -> Result<Plan, Failure> {
    let mut plan = Plan::new(args.suite.into(), args.seed.unwrap_or_else(|| fastrand::u64(..1 << 32)));
    plan.rate = args.rate;
    let plan = plan.only(args.scenario.iter().cloned());
    let measured = plan.scenarios();
    let missing = args.scenario.iter().find(|id| !measured.iter().any(|scenario| scenario.id() == id.as_str()));
    match missing {
        Some(id) => {
            let suite = plan.suite;
            let way = if id == "open_loop" { "give --rate, or a larger --suite" } else { "give a larger --suite" };
            Err(Failure::usage(format!("the suite {suite} has no scenario {id}: {way}")))
        }
        None => Ok(plan),
    }
}

async fn assemble(candidates: &[Candidate]) -> Fleet {
    let progress = Progress::new("starting");
    let mut fleet = Fleet::default();
    for (done, candidate) in candidates.iter().enumerate() {
        progress.step(done, candidates.len(), &candidate.id);
        fleet.add(candidate).await;
    }
    progress.finish();
    fleet
}

/// Says who takes part, and how to get the others.
fn introduce(candidates: &[Candidate], fleet: &Fleet) -> Result<(), Failure> {
    let ids: Vec<&str> = fleet.targets.iter().map(|target| target.id.as_str()).collect();
    say(format_args!("comparing {}", ids.join(" ")));
    fleet.skipped.iter().map(absence).for_each(say);
    let missing = candidates.iter().find(|c| c.asked_for && fleet.skipped.iter().any(|skipped| skipped.id == c.id));
    match missing {
        Some(missing) => {
            Err(Failure::new(Exit::Unreachable, format!("{} was asked for and cannot be compared", missing.id)))
        }
        None => Ok(()),
    }
}

fn absence(skipped: &Skipped) -> String {
    let Skipped { id, reason, hint, .. } = skipped;
    let help = if hint.is_empty() { String::new() } else { format!("; to get it: {hint}") };
    format!("not here: {id} ({reason}){help}")
}

fn estimate(args: &CompareArgs, plan: &Plan, targets: &[Target]) -> String {
    let servers = u32::try_from(targets.iter().filter(|target| target.has_server()).count()).unwrap_or(u32::MAX);
    let checking = if args.skip_conformance { Duration::ZERO } else { CHECKING * (servers + 1) };
    let whole = Duration::from_secs((plan.estimate(targets) + checking).as_secs());
    let whole = humantime::format_duration(whole);
    format!("suite {}, seed {}: takes about {whole}; Ctrl-C ends it and keeps what was measured", plan.suite, plan.seed)
}

/// The conformance suite on every backend that takes part, each on a server of its own.
async fn check(candidates: &[Candidate], fleet: &Fleet, interrupt: &Interrupt) -> Vec<Findings> {
    // Checks mostly wait: two backends at once take little longer than one.
    const AT_ONCE: usize = 2;
    let bars = MultiProgress::new();
    let takes_part = |candidate: &&Candidate| fleet.targets.iter().any(|target| target.id == candidate.id);
    let checks = candidates.iter().filter(takes_part).map(|candidate| check_one(candidate, &bars, interrupt));
    let all: Vec<Findings> = stream::iter(checks).buffered(AT_ONCE).collect().await;
    all.into_iter().filter(|findings| !matches!(findings.trouble, Some(Trouble::Interrupted))).collect()
}

async fn check_one(candidate: &Candidate, bars: &MultiProgress, interrupt: &Interrupt) -> Findings {
    let progress = Progress::among(bars, &format!("checking {}", candidate.id));
    let findings = suite::check(candidate, &Selection(Vec::new()), interrupt, &progress, |_| ()).await;
    progress.finish();
    bars.suspend(|| tell(&findings));
    findings
}

fn tell(findings: &Findings) {
    let id = &findings.id;
    match &findings.trouble {
        Some(Trouble::Absent(reason)) => say(format_args!("{id}: not checked: {reason}")),
        Some(Trouble::Broken(reason)) => say(format_args!("{id}: does not work: {reason}")),
        Some(Trouble::Interrupted) => {}
        None => {
            let count = |outcome| findings.count(outcome);
            let (passed, failed) = (count(CheckOutcome::Passed), count(CheckOutcome::Failed));
            let ignored = count(CheckOutcome::Ignored);
            say(format_args!("{id}: {passed} checks passed, {failed} failed, {ignored} do not apply"));
        }
    }
    for result in findings.results.iter().filter(|result| result.outcome == CheckOutcome::Failed) {
        say(conformance::line(id, result));
    }
}

fn results(findings: &Findings) -> Conformance {
    let word = |outcome| match outcome {
        CheckOutcome::Passed => "passed",
        CheckOutcome::Failed => "failed",
        _ => "ignored",
    };
    let checks = findings.results.iter();
    let checks = checks.map(|check| Check::new(check.name, word(check.outcome), check.reason.clone(), check.seconds));
    Conformance::new(&findings.id, checks.collect())
}

async fn end(fleet: Fleet) {
    for trouble in fleet.end().await {
        say(format_args!("what was measured left something behind: {trouble}"));
    }
}

fn stopped(interrupt: &Interrupt) -> Exit {
    interrupt.signal().map_or(Exit::Internal, Exit::from)
}

/// The command that does the same again, without secrets.
fn command(args: &CompareArgs, seed: u64) -> String {
    let suite: Suite = args.suite.into();
    let mut command = format!("lockyard compare --suite {suite} --seed {seed}");
    for backend in &args.targets.backend {
        let shown = LockUrl::parse(backend).map_or_else(|_| backend.clone(), |url| url.redacted());
        command += &format!(" --backend {shown}");
    }
    for scenario in &args.scenario {
        command += &format!(" --scenario {scenario}");
    }
    if let Some(rate) = args.rate {
        command += &format!(" --rate {rate}");
    }
    if args.skip_conformance {
        command += " --skip-conformance";
    }
    command
}

impl From<SuiteSize> for Suite {
    fn from(size: SuiteSize) -> Self {
        match size {
            SuiteSize::Quick => Self::Quick,
            SuiteSize::Standard => Self::Standard,
            SuiteSize::Full => Self::Full,
        }
    }
}

/// Shows the progress of the measuring and passes the wish to end on.
struct Watcher {
    progress: Progress,
    interrupt: Interrupt,
}

impl lockyard_benches::Progress for Watcher {
    fn step(&self, done: usize, of: usize, what: &str) {
        self.progress.step(done, of, what);
    }

    fn trouble(&self, what: &str) {
        self.progress.say(&format!("not measured: {what}"));
    }

    fn cancelled(&self) -> bool {
        self.interrupt.signal().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_here_is_named_with_its_cure() {
        let absent = Skipped::new("redis", "no redis-server on the PATH", "apt-get install redis-server");
        let line = "not here: redis (no redis-server on the PATH); to get it: apt-get install redis-server";
        assert_eq!(absence(&absent), line);
        assert_eq!(absence(&Skipped::new("x", "why", "")), "not here: x (why)");
    }
}
