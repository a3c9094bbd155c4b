//! `lockyard chaos`: clients in processes of their own, faults, and the history of both, checked.

pub(crate) mod client;
mod faults;
mod outcome;
mod plan;
pub(crate) mod puppet;
mod record;
mod run;
mod site;
mod stage;
mod work;

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use lockyard_conformance::NoHarness;
use lockyard_conformance::history::History;

use super::interrupt::Interrupt;
use super::targets::{self, Candidate};
use crate::args::ChaosArgs;
use crate::exit::{Exit, Failure};
use crate::output::{print, say};
use outcome::Outcome;
use plan::Shape;

pub(crate) async fn chaos(args: ChaosArgs) -> Result<Exit, Failure> {
    if let Some(file) = &args.replay {
        return replay(file);
    }
    let candidates = targets::chosen(&args.targets)?;
    let interrupt = Interrupt::listen()?;
    let mut violated = false;
    for candidate in &candidates {
        let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
        let shape = Shape { seed, duration: args.duration, clients: args.clients, names: args.names, ttl: args.ttl };
        let again = again(candidate, &shape);
        say(format_args!("{}: {again}", candidate.id));
        let Some(ran) = interrupt.unless(run::run(candidate, &shape, args.allow_faults)).await else {
            return Ok(interrupt.signal().map_or(Exit::Internal, Exit::from));
        };
        match ran {
            Ok((outcome, history)) => {
                print(outcome.text(&candidate.id, &shape));
                let file = history_file(&args, candidate, &shape, candidates.len(), outcome.failed());
                if let Some(file) = file {
                    write(&file, &history)?;
                    say(format_args!("{}: the history is in {}", candidate.id, file.display()));
                }
                violated |= outcome.failed();
            }
            Err(NoHarness::Skip(reason)) if !candidate.asked_for => {
                print(format_args!("SKIP {} ({reason})", candidate.id))
            }
            Err(NoHarness::Skip(reason)) => {
                let message = format!("{} was asked for and is not here: {reason}", candidate.id);
                return Err(Failure::new(Exit::Unreachable, message));
            }
            Err(NoHarness::Failed(reason)) => {
                print(format_args!("FAIL {} ({reason})", candidate.id));
                violated = true;
            }
            Err(_) => return Err(Failure::internal("there is no harness")),
        }
    }
    Ok(if violated { Exit::CheckFailed } else { Exit::Success })
}

/// The command that does the same again, without secrets.
fn again(candidate: &Candidate, shape: &Shape) -> String {
    let backend = candidate.url.as_deref().map_or_else(
        || candidate.kind.id().to_owned(),
        |url| lockyard::LockUrl::parse(url).map_or_else(|_| "URL".to_owned(), |url| url.redacted()),
    );
    let Shape { seed, duration, clients, names, ttl } = shape;
    let (duration, ttl) = (humantime::format_duration(*duration), humantime::format_duration(*ttl));
    format!(
        "lockyard chaos --backend {backend} --seed {seed} --duration '{duration}' --clients {clients} --names {names} --ttl '{ttl}'"
    )
}

/// Where the history of a run goes: where it was asked for, and a history that shows a fault always somewhere.
fn history_file(args: &ChaosArgs, candidate: &Candidate, shape: &Shape, of: usize, failed: bool) -> Option<PathBuf> {
    match &args.history {
        Some(file) if of == 1 => Some(file.clone()),
        Some(file) => Some(file.with_extension(format!("{}.jsonl", candidate.id))),
        None if failed => Some(format!("lockyard-chaos-{}-{}.jsonl", candidate.id, shape.seed).into()),
        None => None,
    }
}

fn write(file: &Path, history: &History) -> Result<(), Failure> {
    let written = File::create(file).and_then(|to| history.write(BufWriter::new(to)));
    written.map_err(|error| Failure::internal(format!("cannot write {}: {error}", file.display())))
}

/// Checks a history that was written before.
fn replay(file: &Path) -> Result<Exit, Failure> {
    let wrong = |error: String| Failure::usage(format!("{}: {error}", file.display()));
    let from = File::open(file).map_err(|error| wrong(error.to_string()))?;
    let history = History::read(BufReader::new(from)).map_err(|error| wrong(error.to_string()))?;
    let outcome = Outcome::of(&history);
    print(outcome.verdict_text(&history.rules.backend));
    Ok(if outcome.failed() { Exit::CheckFailed } else { Exit::Success })
}
