//! `lockyard run`: a command under a lock.

mod acquire;
mod child;
mod client;
mod deathsig;
mod dry;
mod env;
#[cfg(feature = "jobs")]
mod figures;
mod hold;
mod jitter;
#[cfg(feature = "metrics")]
mod metrics;
mod program;
mod renewals;
mod replace;
mod schedule;
mod signals;
#[cfg(feature = "jobs")]
mod slot;
mod status;
mod times;
mod tree;
mod watch;

use std::sync::Arc;

use lockyard::Guard;

use crate::args::RunArgs;
use crate::exit::{Exit, Failure};
use crate::output::Voice;
use crate::source::Source;
use acquire::{Acquired, acquire, check_ttl, nothing_locked, undo};
use client::Client;
use hold::Hold;
#[cfg(feature = "metrics")]
use metrics::Metrics;
use program::Program;
use renewals::Renewals;
use schedule::Schedule;
use signals::Signals;
#[cfg(feature = "jobs")]
use slot::Slot;
use status::{Outcome, Status};

/// Runs the command of this command line, unless its configuration is wrong.
pub(crate) async fn run(args: RunArgs, settled: Result<(), Failure>) -> Result<Exit, Failure> {
    let end = match settled {
        Ok(()) => attempt(&args).await,
        Err(failure) => Err(failure),
    };
    let (exit, status) = match end {
        Ok(end) => end,
        Err(failure) => {
            crate::output::say(&failure.message);
            (failure.exit, Status::new(&args.name, Outcome::Error).because(failure.message))
        }
    };
    if let Some(path) = args.status_file.as_ref().filter(|_| !args.dry_run)
        && let Err(error) = status.ended_with(exit).write(path)
    {
        // The command has run: its code says more than that of a file that could not be written.
        crate::output::say(format_args!("cannot write {} (--status-file): {error}", path.display()));
    }
    Ok(exit)
}

/// How a run ended, for the shell and for the status file.
type End = (Exit, Status);

async fn attempt(args: &RunArgs) -> Result<End, Failure> {
    let voice = Voice::new(args.voice.quiet, args.voice.verbose);
    // A typo is found out before the lock is taken.
    let program = Program::find(args)?;
    let source = args.source.resolve(args.ttl, voice)?;
    times::check(args, voice)?;
    #[cfg(feature = "jobs")]
    let slot = Slot::of(&args.start, &args.name, &source.options().clock)?;
    if source.is_memory() {
        voice.warn("memory: locks live in this process alone and keep nobody else out");
    }
    #[cfg(feature = "metrics")]
    let metrics = if args.dry_run { None } else { Metrics::start(&args.metrics)? };
    #[cfg(all(feature = "jobs", feature = "metrics"))]
    let slot = match slot {
        Some(slot) if metrics.is_some() => Some(slot.counted(&args.name, &source)?),
        slot => slot,
    };
    let run = Run {
        args,
        program,
        source,
        voice,
        holder: env::holder(),
        renewals: Arc::default(),
        #[cfg(feature = "jobs")]
        slot,
        #[cfg(feature = "metrics")]
        metrics: metrics.as_ref(),
    };
    let end = run.attempt().await;
    #[cfg(feature = "jobs")]
    if let (Some(slot), Err(failure)) = (&run.slot, &end) {
        slot.figures().failed(&failure.message);
    }
    #[cfg(feature = "metrics")]
    if let Some(metrics) = &metrics {
        metrics.write(voice);
    }
    end
}

/// One run, all of whose options are known to make sense.
struct Run<'a> {
    args: &'a RunArgs,
    program: Program,
    source: Source,
    voice: Voice,
    holder: String,
    renewals: Arc<Renewals>,
    #[cfg(feature = "jobs")]
    slot: Option<Slot>,
    #[cfg(feature = "metrics")]
    metrics: Option<&'a Metrics>,
}

impl Run<'_> {
    async fn attempt(&self) -> Result<End, Failure> {
        let Self { args, voice, .. } = *self;
        let mut signals = Signals::listen().map_err(|error| Failure::internal(format!("no signals: {error}")))?;
        if args.dry_run {
            let client = self.connect().await?;
            let exit = dry::show(args, &self.program, &client.locks, &self.source).await?;
            return Ok((exit, Status::new(&args.name, Outcome::Skipped)));
        }
        let acquired = tokio::select! {
            biased;
            signal = signals.stop() => Acquired::Interrupted(None, signal),
            client = self.connect_in_time() => {
                let client = client?;
                check_ttl(&client.locks, &self.source, args)?;
                acquire(client, args, &mut signals).await?
            }
        };
        match acquired {
            Acquired::Guard(client, guard) => self.hold(client, guard, &mut signals).await,
            Acquired::Busy(reason) => {
                #[cfg(feature = "jobs")]
                self.slot.iter().for_each(|slot| slot.figures().held());
                voice.note(format_args!("lock {:?} is held by another: the command is skipped", args.name));
                Ok((self.skipped(), Status::new(&args.name, Outcome::Skipped).because(reason)))
            }
            Acquired::Interrupted(locks, signal) => {
                undo(locks).await;
                voice.note(format_args!("{signal} while waiting: the command was not started"));
                Ok((signal.into(), Status::new(&args.name, Outcome::Error).because("signal")))
            }
        }
    }

    async fn hold(&self, client: Client, guard: Guard, signals: &mut Signals) -> Result<End, Failure> {
        let args = self.args;
        // The lease granted may be another than the one asked for.
        let schedule = Schedule::new(guard.ttl(), self.source.options().drift, args.kill_after, args.renew);
        let renewals = Arc::clone(&self.renewals);
        let hold = Hold::new(args, client, guard, &self.source, &self.holder, renewals, self.voice);
        let schedule = match schedule {
            Ok(schedule) => schedule,
            Err(failure) => {
                hold.give_back().await;
                return Err(failure);
            }
        };
        #[cfg(feature = "jobs")]
        let hold = match &self.slot {
            None => hold,
            Some(slot) => match slot.claim(&self.source, hold.guard(), &self.holder).await {
                Ok(slot::Claim::Claimed(claimed)) => hold.for_slot(slot.at(), claimed),
                refused => {
                    hold.give_back().await;
                    return self.not_claimed(refused);
                }
            },
        };
        hold.run(&self.program, schedule, signals).await
    }

    #[cfg(feature = "jobs")]
    fn not_claimed(&self, claim: Result<slot::Claim, Failure>) -> Result<End, Failure> {
        let name = &self.args.name;
        match claim? {
            slot::Claim::Used(text) => {
                self.slot.iter().for_each(|slot| slot.figures().used());
                self.voice.note(format_args!("{text}: the command is skipped"));
                Ok((self.skipped(), Status::new(name, Outcome::Skipped).because("already_ran")))
            }
            slot::Claim::Lost | slot::Claim::Claimed(_) => Err(Failure::new(
                Exit::Lost,
                format!("lock {name:?} was lost before the command was started; its slot may count as used"),
            )),
        }
    }

    fn skipped(&self) -> Exit {
        if self.args.skip_ok { Exit::Success } else { Exit::NotAcquired(self.args.conflict_exit_code) }
    }

    /// Connects when it is time to.
    async fn connect_in_time(&self) -> Result<Client, Failure> {
        let delay = jitter::delay(&self.args.start, &self.args.name);
        if !delay.is_zero() {
            self.voice.note(format_args!("asking for lock {:?} in {delay:.1?} (jitter)", self.args.name));
            self.source.options().clock.sleep(delay).await;
        }
        self.connect().await
    }

    async fn connect(&self) -> Result<Client, Failure> {
        let connecting = Client::connect(
            &self.source,
            self.args,
            &self.holder,
            &self.renewals,
            #[cfg(feature = "metrics")]
            self.metrics,
        );
        connecting.await.map_err(|error| {
            #[cfg(feature = "metrics")]
            if let Some(metrics) = self.metrics {
                metrics.not_connected(&self.source, &self.args.name, &error);
            }
            nothing_locked(error)
        })
    }
}

impl RunArgs {
    /// Whether it waits for the lock instead of trying once.
    fn waits(&self) -> bool {
        self.wait_forever || self.wait.is_some_and(|wait| !wait.is_zero())
    }
}
