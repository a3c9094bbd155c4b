//! A job about to be built.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Clock, FencedRegister, Locker};

use crate::event::{Events, JobObserver};
use crate::supervise::Limits;
use crate::{Invalid, Jitter, Job, Misfire, OnConflict, OnCrash, Result, Schedule, Ticks, WallTime, validate};

/// Options of a [`Job`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until build"]
pub struct JobBuilder {
    pub(crate) name: String,
    pub(crate) locks: Locker,
    pub(crate) register: Arc<dyn FencedRegister>,
    pub(crate) schedule: Schedule,
    pub(crate) ttl: Option<Duration>,
    pub(crate) at_most_for: Option<Duration>,
    pub(crate) at_least_for: Option<Duration>,
    pub(crate) cancel_before: Option<Duration>,
    pub(crate) abort_after: Duration,
    pub(crate) on_conflict: OnConflict,
    pub(crate) misfire: Misfire,
    pub(crate) on_crash: OnCrash,
    pub(crate) jitter: Jitter,
    pub(crate) shards: Option<u32>,
    clock: Option<Clock>,
    label: Option<String>,
    observers: Vec<Arc<dyn JobObserver>>,
}

/// What a job does by: checked.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) ticks: Ticks,
    pub(crate) ttl: Duration,
    pub(crate) at_least_for: Option<Duration>,
    pub(crate) limits: Limits,
    pub(crate) on_conflict: OnConflict,
    pub(crate) misfire: Misfire,
    pub(crate) on_crash: OnCrash,
    /// How long after the tick a scheduler starts it.
    pub(crate) delay: Duration,
    pub(crate) clock: Clock,
    pub(crate) holder: String,
    pub(crate) events: Events,
}

impl JobBuilder {
    const TTL: Duration = Duration::from_secs(30);
    const LONGEST_LEAD: Duration = Duration::from_secs(5);

    pub(crate) fn new(name: &str, locks: Locker, register: Arc<dyn FencedRegister>) -> Self {
        Self {
            name: name.to_owned(),
            locks,
            register,
            schedule: Schedule::manual(),
            ttl: None,
            at_most_for: None,
            at_least_for: None,
            cancel_before: None,
            abort_after: Duration::from_secs(5),
            on_conflict: OnConflict::default(),
            misfire: Misfire::default(),
            on_crash: OnCrash::default(),
            jitter: Jitter::default(),
            shards: None,
            clock: None,
            label: None,
            observers: Vec::new(),
        }
    }

    /// When it is due: only when asked, unless set.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// The lease of the lock, renewed every third of it while the job runs: 30 s. Longer: a replica that dies blocks the job
    /// longer. Shorter: a shorter outage of the service ends the run.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How long a run may take: no limit. After it the job is told to end ([`RunContext::cancelled`](crate::RunContext::cancelled)), and
    /// dropped after [`JobBuilder::abort_after`]. The lock is kept until then.
    pub const fn at_most_for(mut self, time: Duration) -> Self {
        self.at_most_for = Some(time);
        self
    }

    /// How long the job stays closed from the start of a run, however short the run: not at all. It spaces runs out; that a
    /// slot is started once needs no help of it.
    ///
    /// By the server's clock on Redis, Postgres, ZooKeeper, etcd (whole seconds, up to 5 minutes, as its leases are) and in memory:
    /// by a marker that stands there whatever becomes of this replica. On files, and for other times on etcd, by a record of the
    /// time and the clocks of the hosts: as exact as these agree.
    pub const fn at_least_for(mut self, time: Duration) -> Self {
        self.at_least_for = Some(time);
        self
    }

    /// How long before the lock is lost the job is told to end: a sixth of the ttl, at most 5 s. When the lock is lost, it
    /// is dropped. Longer: an outage ends runs sooner.
    pub const fn cancel_before(mut self, time: Duration) -> Self {
        self.cancel_before = Some(time);
        self
    }

    /// How long a job that was told to end is given before it is dropped: 5 s.
    pub const fn abort_after(mut self, time: Duration) -> Self {
        self.abort_after = time;
        self
    }

    /// What to do when another holds the lock: skip.
    pub const fn on_conflict(mut self, policy: OnConflict) -> Self {
        self.on_conflict = policy;
        self
    }

    /// What to do with slots that nobody has run in time: run the latest when it is at most an hour late.
    pub const fn misfire(mut self, policy: Misfire) -> Self {
        self.misfire = policy;
        self
    }

    /// What to do with a slot whose replica has vanished: count it as used.
    pub const fn on_crash(mut self, policy: OnCrash) -> Self {
        self.on_crash = policy;
        self
    }

    /// How long after the tick a [`Scheduler`](crate::Scheduler) starts it: at once.
    pub const fn start_jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Splits the job into this many parts that run beside one another, on whichever replicas: each has a lock and a record
    /// of its own. The number is part of the job: change it only when no replica runs with the old one.
    pub const fn shards(mut self, shards: u32) -> Self {
        self.shards = Some(shards);
        self
    }

    /// The clock whose wall clock names the time: that of the [`Locker`]. For tests.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// What this replica is called in the record: host name and process number.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Who is told of what happens, beside those who are already.
    pub fn observer(mut self, observer: impl JobObserver) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// The job.
    ///
    /// # Errors
    /// `Invalid` for an option that is wrong or that fits no other; it names the option and how to mend it. No traffic.
    pub fn build(self) -> Result<Job> {
        let clock = self.clock.clone().unwrap_or_else(|| self.locks.clock().clone());
        let now = WallTime::now(&clock);
        let ticks = self.schedule.ticks(&self.name, now)?;
        let ttl = self.ttl.unwrap_or_else(|| Self::TTL.max(self.locks.capabilities().ttl.min));
        let lead = self.cancel_before.unwrap_or_else(|| (ttl / 6).min(Self::LONGEST_LEAD));
        validate::check(&self, &ticks, ttl, lead, now)?;
        let settings = Settings {
            ttl,
            at_least_for: self.at_least_for.filter(|time| !time.is_zero()),
            limits: Limits { at_most: self.at_most_for, grace: self.abort_after, lead },
            on_conflict: self.on_conflict,
            misfire: self.misfire,
            on_crash: self.on_crash,
            delay: self.jitter.delay(&self.name),
            holder: self.label.clone().unwrap_or_else(here),
            events: Events::new(&self.name, self.observers.clone()),
            clock,
            ticks,
        };
        Job::assemble(self, settings)
    }

    pub(crate) fn invalid(&self, option: &'static str, problem: impl Into<String>, cure: impl Into<String>) -> Invalid {
        Invalid::new(&self.name, option, problem, cure)
    }
}

/// Host name and process number.
fn here() -> String {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    format!("{}:{}", host.as_deref().unwrap_or("unknown"), std::process::id())
}
