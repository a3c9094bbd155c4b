//! Getting a lock: contending, waiting, giving up.

use std::sync::Arc;
use std::time::Duration;

use tracing::{Instrument, Span};

use super::cohort::Relay;
use super::core::Core;
use super::hold::Account;
use super::queue::Key;
use super::release::{Undo, retry};
use super::spans::Spans;
use super::trouble::Trouble;
use super::turn::Turn;
use crate::{
    Attempt, Claim, Error, ErrorKind, FencingToken, Grant, Guard, Liveness, Moment, Operation, Outcome, Owner, Renewal,
    Result, Wake,
};

/// How long an acquire whose time is over waits for the undo of its claim.
const GRACE: Duration = Duration::from_millis(500);

/// One call of acquire or try_acquire.
pub(crate) struct Acquire<'a> {
    core: &'a Arc<Core>,
    /// What is claimed: sent as it is first, later as copies with owners of their own.
    model: Arc<Claim>,
    limit: Option<Moment>,
    /// Read where the time that it takes is of use to anybody.
    began: Option<Moment>,
    attempts: u32,
    ended: bool,
    spans: Option<Box<Spans>>,
}

/// What became of one request.
enum Step {
    Granted(Turn, Grant),
    Queued(Turn),
    Busy,
    Failed(Turn, Error),
}

impl<'a> Acquire<'a> {
    pub(crate) fn new(core: &'a Arc<Core>, model: Claim, wait: Option<Duration>) -> Self {
        let began = (wait.is_some() || core.events.wants_times()).then(|| core.clock.stopwatch());
        let limit = wait.and_then(|wait| Some(began?.plus(wait)));
        core.events.asked(&model.name);
        let spans = Spans::of(&model, core.events.backend());
        Self { model: Arc::new(model), limit, began, attempts: 0, ended: false, spans, core }
    }

    /// Tries once. `None` when another holds the name.
    pub(crate) async fn once(&mut self) -> Result<Option<Guard>> {
        self.admit()?;
        let result = match self.spans.as_ref().map(|spans| spans.acquire()) {
            None => self.try_once().await,
            Some(span) => Box::pin(self.try_once().instrument(span)).await,
        };
        if self.attempts > 0 {
            self.core.judge(result.as_ref().err());
        }
        match &result {
            Ok(None) => {
                let waited = self.end("contended");
                self.core.events.contended(&self.model.name, waited);
            }
            Err(error) => self.give_up_with(error),
            Ok(Some(_)) => {}
        }
        result.map_err(|error| self.explain(error))
    }

    /// Fails while the circuit is open.
    fn admit(&mut self) -> Result<()> {
        let Some(error) = self.core.refusal() else { return Ok(()) };
        self.give_up_with(&error);
        Err(self.explain(error))
    }

    /// Waits until the name is granted or the time is over.
    pub(crate) async fn waiting(&mut self) -> Result<Guard> {
        self.admit()?;
        let result = match self.spans.as_ref().map(|spans| spans.acquire()) {
            None => self.wait_for_it().await,
            Some(span) => Box::pin(self.wait_for_it().instrument(span)).await,
        };
        if self.attempts > 0 {
            self.core.judge(result.as_ref().err());
        }
        match &result {
            Err(error) if error.kind() == ErrorKind::Timeout => {
                let waited = self.end("timeout");
                self.core.events.timed_out(&self.model.name, waited);
            }
            Err(error) => self.give_up_with(error),
            Ok(_) => {}
        }
        result.map_err(|error| self.explain(error))
    }

    async fn try_once(&mut self) -> Result<Option<Guard>> {
        let core = self.core;
        if core.local_queue && !core.queue.try_enter(Key::of(Arc::clone(&self.model))) {
            return Ok(None);
        }
        let mut turn = self.turn(core.local_queue);
        // A session may have ended since it was last looked at; a new claim opens a new one. Once: a try does not wait.
        for last in [false, true] {
            match self.request(turn).await? {
                Step::Granted(turn, grant) => return Ok(Some(self.guard(turn, &grant))),
                Step::Busy => return Ok(None),
                Step::Failed(back, error) if error.kind() == ErrorKind::SessionChanged && !last => turn = back,
                Step::Failed(_, error) => return Err(error),
                // A backend that queues a claim which asked not to be: given up like any other wait.
                Step::Queued(..) => return Ok(None),
            }
        }
        Ok(None)
    }

    async fn wait_for_it(&mut self) -> Result<Guard> {
        let mut turn = self.enter_queue().await?;
        if let Some(relay) = turn.take_relay() {
            match self.relayed(turn, relay) {
                Ok(guard) => return Ok(guard),
                Err(back) => turn = back,
            }
        }
        let mut trouble = Trouble::new(self.core);
        loop {
            match self.request(turn).await? {
                Step::Granted(turn, grant) => return Ok(self.guard(turn, &grant)),
                Step::Queued(queued) => {
                    trouble.over();
                    // Boxed: what seldom runs should not be carried about by every acquire.
                    match Box::pin(self.wait(queued, &mut trouble)).await? {
                        Ok((turn, grant)) => return Ok(self.guard(turn, &grant)),
                        Err(back) => turn = back,
                    }
                }
                // Only a claim that leaves nothing behind is answered so; this one asked for a place.
                Step::Busy => {
                    return Err(Error::new(ErrorKind::Protocol, "the backend answered busy to a claim that queues"));
                }
                Step::Failed(back, error) => turn = Box::pin(self.recover(back, error, &mut trouble)).await?,
            }
        }
    }

    /// The turn of this process for the name, when it comes.
    async fn enter_queue(&self) -> Result<Turn> {
        let core = self.core;
        if !core.local_queue {
            return Ok(self.turn(false));
        }
        let Some(place) = core.queue.enter(Key::of(Arc::clone(&self.model))) else { return Ok(self.turn(true)) };
        match Box::pin(core.until(self.limit, place)).await {
            Some(Ok(turn)) => Ok(turn),
            // A turn is never dropped without being passed on; if one were, contending anew is right.
            Some(Err(_)) => Ok(self.turn(false)),
            None => Err(self.timeout().not_applied()),
        }
    }

    /// A new turn, in the local queue or apart from it.
    fn turn(&self, in_queue: bool) -> Turn {
        let (core, claim) = (Arc::clone(self.core), Arc::clone(&self.model));
        if in_queue { Turn::of_queue(core, claim) } else { Turn::apart(core, claim) }
    }

    /// Sends the turn's claim, or a new one, and says what came of it.
    async fn request(&mut self, mut turn: Turn) -> Result<Step> {
        let repeated = turn.is_armed();
        match self.attempts {
            _ if repeated => {}
            0 => turn.arm(&self.model),
            // Each claim has an owner that no other ever had.
            _ => turn.arm(&Arc::new(Claim::clone(&self.model).with_owner(Owner::random()))),
        }
        self.attempts = self.attempts.saturating_add(1);
        let write = self.core.write(async move {
            let result = turn.core().backend.try_acquire(turn.claim()).await;
            (turn, result)
        });
        let Some((mut turn, result)) = self.core.until(self.limit, write).await else {
            return Err(self.timeout());
        };
        Ok(match result {
            Ok(Attempt::Granted(grant)) => Step::Granted(turn, grant),
            Ok(Attempt::Queued) => Step::Queued(turn),
            Ok(Attempt::Busy) => {
                turn.disarm();
                Step::Busy
            }
            Err(error) => {
                // Of a repeat only this request was not applied: the place that an earlier one took is still there.
                let nothing_there = error.outcome() == Outcome::NotApplied && !repeated;
                if nothing_there {
                    turn.disarm();
                }
                self.forget_past(&mut turn, &error);
                Step::Failed(turn, error)
            }
        })
    }

    /// Listens for the grant of a queued claim. The turn comes back when the claim should be sent again.
    async fn wait(&self, mut turn: Turn, trouble: &mut Trouble) -> Result<Result<(Turn, Grant), Turn>> {
        match self.core.until(self.limit, self.core.backend.wait(turn.claim())).await {
            None => Err(self.give_up(turn).await),
            Some(Ok(Wake::Retry)) => Ok(Err(turn)),
            Some(Ok(Wake::Granted(grant))) => self.confirm(turn, grant).await,
            Some(Err(error)) => {
                self.forget_past(&mut turn, &error);
                self.recover(turn, error, trouble).await.map(Err)
            }
        }
    }

    /// A grant that has been on its way for long is confirmed before it is reported.
    async fn confirm(&self, mut turn: Turn, grant: Grant) -> Result<Result<(Turn, Grant), Turn>> {
        let (valid_from, ttl) = match &grant.liveness {
            Liveness::Lease { ttl } => (grant.valid_from, *ttl),
            Liveness::Session(watch) => watch.lease(),
            Liveness::Process => return Ok(Ok((turn, grant))),
        };
        if self.core.clock.now() < valid_from.plus(ttl / 2) {
            return Ok(Ok((turn, grant)));
        }
        let write = self.core.write(async move {
            let result = turn.core().backend.renew(turn.claim()).await;
            (turn, result)
        });
        let Some((back, result)) = self.core.until(self.limit, write).await else { return Err(self.timeout()) };
        turn = back;
        match result {
            Ok(Renewal::Renewed { ttl, valid_from }) => {
                let liveness = match grant.liveness {
                    Liveness::Lease { .. } => Liveness::Lease { ttl },
                    other => other,
                };
                Ok(Ok((turn, Grant::new(grant.token, valid_from, liveness))))
            }
            Ok(Renewal::Lost) => {
                turn.disarm();
                Ok(Err(turn))
            }
            // The same claim again: a holder's repeat finds the hold, everybody else's a place.
            Err(_) => Ok(Err(turn)),
        }
    }

    /// A claim of a session that has ended is of no more use: the next request makes a new one, and the backend is told that
    /// it may forget the old.
    fn forget_past(&self, turn: &mut Turn, error: &Error) {
        if error.kind() == ErrorKind::SessionChanged && turn.disarm() {
            retry(Arc::clone(turn.claim()), self.core, Undo::Claim);
        }
    }

    /// What to do about an error: wait a little and go on, or tell it.
    async fn recover(&self, turn: Turn, error: Error, trouble: &mut Trouble) -> Result<Turn> {
        let Some(pause) = trouble.pause(self.core, &error) else { return Err(error) };
        self.core.events.error(Operation::Acquire, Some(&self.model.name), &error);
        match self.core.until(self.limit, self.core.clock.sleep(pause)).await {
            Some(()) => Ok(turn),
            None => Err(self.give_up(turn).await),
        }
    }

    /// The time is over: an heir takes the claim over, or it is undone before the caller is told.
    async fn give_up(&self, turn: Turn) -> Error {
        // Only a claim that was really taken over is nothing of this caller's any more.
        let Err(mut turn) = turn.bequeath() else { return self.timeout().not_applied() };
        if !turn.disarm() {
            return self.timeout().not_applied();
        }
        let undo = self.core.write(async move {
            let (core, claim) = (turn.core(), turn.claim());
            let result = core.backend.release(claim).await;
            if result.is_err() {
                retry(Arc::clone(claim), core, Undo::Claim);
            }
            drop(turn);
            result.is_ok()
        });
        let grace = self.core.clock.now().plus(GRACE);
        match self.core.until(Some(grace), undo).await {
            Some(true) => self.timeout().not_applied(),
            _ => self.timeout(),
        }
    }

    fn guard(&mut self, mut turn: Turn, grant: &Grant) -> Guard {
        turn.disarm();
        let account = self.granted(turn.claim(), grant.token);
        Guard::new(turn, grant, account)
    }

    /// What the holder before handed on. The turn comes back when that is not to be relied on any more.
    fn relayed(&mut self, turn: Turn, relay: Relay) -> Result<Guard, Turn> {
        if !relay.is_good(self.core) {
            // Apart from the queue, whose turn goes on contending behind it.
            let apart = Turn::apart(Arc::clone(self.core), Arc::clone(&relay.hold.claim));
            relay.give_back(apart);
            return Err(turn);
        }
        let account = self.granted(&relay.hold.claim, relay.token);
        Ok(Guard::relayed(turn, relay, account))
    }

    /// Tells of the grant; what is kept of it where anybody wants to know.
    fn granted(&mut self, claim: &Claim, token: Option<FencingToken>) -> Option<Arc<Account>> {
        let now = self.began.map(|_| self.core.clock.stopwatch());
        let waited = self.end_at(now, "acquired");
        self.core.events.acquired(claim, token, waited, self.attempts);
        now.filter(|_| self.core.events.wants_times()).map(|since| {
            let span = self.spans.as_ref().map_or_else(Span::none, |spans| spans.hold(claim, token));
            Arc::new(Account { since, span })
        })
    }

    fn give_up_with(&mut self, error: &Error) {
        let waited = self.end("error");
        self.core.events.error(Operation::Acquire, Some(&self.model.name), error);
        self.core.events.gave_up(&self.model.name, error.kind(), waited);
    }

    /// The end of it, told once; returns how long it took.
    fn end(&mut self, outcome: &'static str) -> Duration {
        let now = self.began.map(|_| self.core.clock.stopwatch());
        self.end_at(now, outcome)
    }

    fn end_at(&mut self, now: Option<Moment>, outcome: &'static str) -> Duration {
        self.ended = true;
        let waited = self.began.zip(now).map_or(Duration::ZERO, |(began, now)| now.since(began));
        if let Some(spans) = &self.spans {
            spans.ended(outcome, self.attempts, waited.as_secs_f64());
        }
        waited
    }

    fn timeout(&self) -> Error {
        Error::new(ErrorKind::Timeout, format!("not acquired within {:.1?}", self.waited()))
    }

    fn waited(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| self.core.clock.stopwatch().since(began))
    }

    fn explain(&self, error: Error) -> Error {
        error.with_operation(Operation::Acquire).with_name(&self.model.name)
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let waited = self.end("cancelled");
            self.core.events.cancelled(&self.model.name, waited);
        }
    }
}
