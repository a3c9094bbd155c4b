//! Measures every backend that can be started here and writes the report into a folder.
//!
//! `cargo run --release -p lockyard-benches --example measure -- FOLDER [quick|standard|full] [TRIALS] [BACKEND…]`;
//! `SCENARIOS=handoff,contended` measures only these.

use std::error::Error;
use std::fs;
use std::path::Path;

use lockyard_benches::report::{Report, Tool};
use lockyard_benches::{Plan, Progress, Suite, run};

#[path = "../support/targets.rs"]
mod targets;

struct Lines;

impl Progress for Lines {
    fn step(&self, done: usize, of: usize, what: &str) {
        eprintln!("[{done}/{of}] {what}");
    }

    fn trouble(&self, what: &str) {
        eprintln!("! {what}");
    }

    fn cancelled(&self) -> bool {
        false
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name a folder for the report")?;
    let suite: Suite = arguments.next().as_deref().unwrap_or("quick").parse()?;
    let mut plan = Plan::new(suite, 7);
    if let Some(trials) = arguments.next() {
        plan = plan.with_trials(trials.parse()?);
    }
    if let Ok(ids) = std::env::var("SCENARIOS") {
        plan = plan.only(ids.split(','));
    }
    let wanted: Vec<String> = arguments.collect();
    let started = targets::start(&wanted, true).await;
    let targets = &started.targets;
    eprintln!("about {} s for {} backends", plan.estimate(targets).as_secs(), targets.len());
    let measured = run(&plan, targets, &Lines).await;
    let command = format!("lockyard compare --suite {suite} --seed {}", plan.seed);
    let report = Report::new(Tool::new(env!("CARGO_PKG_VERSION"), ""), &command, &plan, &measured);
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    fs::write(folder.join("report.json"), report.to_json())?;
    fs::write(folder.join("report.md"), report.to_markdown())?;
    fs::write(folder.join("report.html"), report.to_html()?)?;
    Ok(())
}
