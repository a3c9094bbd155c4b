//! From the grant to the release: the command, the time the name stays closed, the end.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use lockyard::{Clock, Guard, Moment, Release};

use super::End;
use super::child::Child;
use super::client::Client;
use super::env::Facts;
use super::program::Program;
use super::renewals::Renewals;
use super::schedule::Schedule;
use super::signals::Signals;
#[cfg(feature = "jobs")]
use super::slot;
use super::status::{ChildStatus, Outcome, Status};
use super::times;
use super::watch::{Cause, Ended, Watch};
use crate::args::RunArgs;
use crate::exit::{Exit, Failure};
use crate::output::Voice;
use crate::source::Source;

/// How long a release may take: the lease ends what is not answered.
const RELEASE: Duration = Duration::from_secs(5);
/// The same when the lock is lost anyway.
const RELEASE_LOST: Duration = Duration::from_secs(1);

/// A lock that is held for a command.
pub(super) struct Hold<'a> {
    args: &'a RunArgs,
    client: Client,
    guard: Guard,
    facts: Facts,
    renewals: Arc<Renewals>,
    clock: Clock,
    began: Moment,
    voice: Voice,
    #[cfg(feature = "jobs")]
    slot: Option<slot::Claimed>,
}

impl<'a> Hold<'a> {
    pub(super) fn new(
        args: &'a RunArgs,
        client: Client,
        guard: Guard,
        source: &Source,
        holder: &str,
        renewals: Arc<Renewals>,
        voice: Voice,
    ) -> Self {
        let options = source.options();
        let facts = Facts::of(&guard, client.locks.capabilities().backend, &options.namespace, holder);
        let clock = options.clock.clone();
        Self {
            args,
            client,
            guard,
            facts,
            renewals,
            began: clock.now(),
            clock,
            voice,
            #[cfg(feature = "jobs")]
            slot: None,
        }
    }

    #[cfg(feature = "jobs")]
    pub(super) const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The command runs for this slot.
    #[cfg(feature = "jobs")]
    pub(super) fn for_slot(mut self, at: String, claimed: slot::Claimed) -> Self {
        self.facts.scheduled_at = Some(at);
        self.slot = Some(claimed);
        self
    }

    /// Runs the command, keeps the name closed as long as asked, and releases the lock.
    pub(super) async fn run(
        #[cfg_attr(not(feature = "jobs"), expect(unused_mut, reason = "there is no slot to close"))] mut self,
        program: &Program,
        schedule: Schedule,
        signals: &mut Signals,
    ) -> Result<End, Failure> {
        let token = self.facts.token.as_deref().unwrap_or("none");
        self.voice.note(format_args!("lock {:?} acquired on {}, token {token}", self.facts.name, self.facts.backend));
        let lock = self.client.descriptor(&self.guard);
        let mut child = match lock.and_then(|lock| Child::start(program, self.args, &self.facts, lock)) {
            Ok(child) => child,
            Err(failure) => {
                #[cfg(feature = "jobs")]
                self.close_slot(failure.exit, RELEASE).await;
                self.release(RELEASE).await;
                return Err(failure);
            }
        };
        let limit = self.args.at_most_for.map(|limit| self.began.plus(limit));
        let watch = Watch {
            guard: &self.guard,
            clock: self.clock.clone(),
            schedule,
            on_lost: self.args.on_lost.unwrap_or_default(),
            limit,
            renewals: Arc::clone(&self.renewals),
            voice: self.voice,
        };
        let ended = watch.supervise(&mut child, signals).await;
        let ended = ended.map_err(|error| Failure::internal(format!("cannot wait for the command: {error}")))?;
        self.tell_of_the_living(&child, &ended);
        if ended.cause.is_none() {
            self.keep_closed(signals).await;
        }
        let (exit, mut status) = self.end(&ended);
        let renewals = Arc::clone(&self.renewals);
        let lost = matches!(ended.cause, Some(Cause::Lost(_)));
        let limit = if lost { RELEASE_LOST } else { RELEASE };
        #[cfg(feature = "jobs")]
        self.close_slot(exit, limit).await;
        self.release(limit).await;
        status.renewals = renewals.confirmed();
        Ok((exit, status))
    }

    /// Keeps the lock until `--at-least-for` is over; a signal or the loss of the lock ends that.
    async fn keep_closed(&self, signals: &mut Signals) {
        let until = self.began.plus(times::at_least(self.args));
        let left = until.since(self.clock.now());
        if left.is_zero() {
            return;
        }
        self.voice
            .tell(format_args!("the command has ended; the name stays closed for {left:.0?} more (--at-least-for)"));
        tokio::select! {
            biased;
            _ = signals.stop() => {}
            _ = self.guard.lost() => {}
            () = self.clock.sleep_until(until) => {}
        }
    }

    /// Writes down how the slot ended, while the lock is held, though not for long.
    #[cfg(feature = "jobs")]
    async fn close_slot(&mut self, exit: Exit, limit: Duration) {
        let Some(slot) = self.slot.take() else { return };
        if tokio::time::timeout(limit, slot.close(exit, self.voice)).await.is_err() {
            self.voice.warn("the end of the slot was not written down: no answer");
        }
    }

    /// Gives the lock back before any command was started.
    pub(super) async fn give_back(self) {
        self.release(RELEASE).await;
    }

    /// Releases the lock and waits for the answer, though not for long. Nothing new is said of a lock that is lost.
    async fn release(self, limit: Duration) {
        let Self { client, guard, facts, voice, .. } = self;
        let lost = limit == RELEASE_LOST || guard.lost_reason().is_some();
        let ttl = facts.ttl.unwrap_or_default();
        let answer = tokio::time::timeout(limit, guard.release()).await;
        drop(client);
        let name = facts.name;
        match answer {
            _ if lost => {}
            Ok(Ok(Release::NotHeld)) => {
                voice.warn(format_args!("lock {name:?} was gone when it was released: another may have held it"));
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => voice.warn(format_args!("{error}; the lease ends the lock within {ttl:?}")),
            Err(_) => voice.warn(format_args!("release {name:?}: no answer; the lease ends the lock within {ttl:?}")),
        }
    }

    fn end(&self, ended: &Ended) -> End {
        let (exit, outcome, reason) = match ended.cause {
            Some(Cause::Lost(reason)) => {
                (Exit::Lost, Outcome::Lost, Some(reason.map_or("renewal_failed", lockyard::LostReason::as_str)))
            }
            Some(Cause::TimeLimit) => (Exit::TimeLimit, Outcome::Timeout, Some("at_most_for")),
            Some(Cause::Signals) => (own(ended.status), Outcome::Ran, Some("signal")),
            None => (own(ended.status), Outcome::Ran, None),
        };
        let held = self.clock.now().since(self.began).as_secs_f64();
        let mut status = Status::new(&self.facts.name, outcome).held(&self.facts, held);
        status.reason = reason.map(str::to_owned);
        status.child = Some(ChildStatus { code: ended.status.code(), signal: ended.status.signal() });
        (exit, status)
    }

    /// What runs on runs without the lock.
    fn tell_of_the_living(&self, child: &Child, ended: &Ended) {
        let mut left = child.members();
        if ended.cause.is_some() {
            left.extend(child.strays());
        }
        if !left.is_empty() {
            let pids: Vec<String> = left.iter().map(ToString::to_string).collect();
            let pids = pids.join(" ");
            self.voice.warn(format_args!(
                "the command has ended, but processes that it started run on without the lock: {pids}"
            ));
        }
    }
}

/// As the shell tells it: the code, or 128 + the signal.
fn own(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Own(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Internal,
    }
}
