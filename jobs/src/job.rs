//! The job.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{CircuitBreaker, FencedRegister, Locker};
use tokio::sync::{OnceCell, watch};

use crate::builder::Settings;
use crate::catalogue::Enrolment;
use crate::decide::{Rules, Wanted};
use crate::event::JobEvent;
use crate::lane::Lane;
use crate::{Invalid, JobBuilder, JobControl, Outcome, Result, RunWork, Skipped, Ticks, WallTime, slot};

/// A job: at most one run at a time while the lease holds, at most one start per scheduled slot. The job must still be
/// idempotent: a run can be cut short by a crash, and a replica that was paused can act late (give the fencing token to
/// what it writes to). Cheap to clone.
///
/// ```
/// use std::time::Duration;
/// use lockyard_jobs::{Job, Outcome, Schedule, WallTime};
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let url = "memory://jobs"; // or redis:// postgres:// etcd:// zk:// file:
/// let (locks, register) = (lockyard::connect(url).await?, lockyard::connect_register(url).await?);
/// let job = Job::builder("orders:sync", locks.clone(), register)
///     .schedule(Schedule::cron("0 2 * * *").tz("Europe/Berlin"))
///     .at_most_for(Duration::from_secs(3600))
///     .build()?;
/// let now = WallTime::now(locks.clock());
/// let outcome = job.run_tick(now, |run| async move {
///     println!("everything until {} under token {}", run.scheduled_at(), run.fencing_token());
///     Ok::<_, std::io::Error>(7)
/// });
/// match outcome.await? {
///     Outcome::Ran(orders) => println!("{orders} orders"),
///     Outcome::Skipped(reason) => println!("not here: {reason}"), // a value and no error
///     other => println!("{}", other.as_str()),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Job {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) locks: Locker,
    /// Around requests to a service that may not answer.
    pub(crate) breaker: CircuitBreaker,
    pub(crate) enrolment: Enrolment,
    pub(crate) enrolled: OnceCell<()>,
    lanes: Vec<Lane>,
    control: JobControl,
    sharded: bool,
}

impl Job {
    /// A job of this name, about to be built. `register` is where its record is kept: of the same service as the locks,
    /// and of the same namespace.
    pub fn builder(name: impl AsRef<str>, locks: Locker, register: Arc<dyn FencedRegister>) -> JobBuilder {
        JobBuilder::new(name.as_ref(), locks, register)
    }

    pub(crate) fn assemble(builder: JobBuilder, settings: Settings) -> Result<Self> {
        let shards: Vec<_> = builder.shards.map_or_else(|| vec![None], |shards| (0..shards).map(Some).collect());
        let lanes = shards.iter().map(|shard| Lane::new(&builder, settings.at_least_for, *shard));
        let lanes = lanes.collect::<Result<_, _>>().map_err(|error| {
            builder.invalid("builder", error.message(), "choose a shorter name of printable characters")
        })?;
        let clock = builder.locks.clock().clone();
        let control = JobControl::new(&builder.name, builder.shards, Arc::clone(&builder.register), clock.clone())?;
        let inner = Inner {
            enrolment: Enrolment::new(&builder.schedule, builder.shards, Arc::clone(&builder.register), clock.clone()),
            enrolled: OnceCell::new(),
            breaker: CircuitBreaker::new(clock),
            sharded: builder.shards.is_some(),
            name: builder.name,
            locks: builder.locks,
            control: control.naming_times_by(&settings.clock),
            settings,
            lanes,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The ticks of its schedule.
    #[must_use]
    pub fn ticks(&self) -> &Ticks {
        &self.inner.settings.ticks
    }

    /// How many shards it has; 1 for a job without.
    #[must_use]
    pub fn shards(&self) -> u32 {
        u32::try_from(self.inner.lanes.len()).unwrap_or(u32::MAX)
    }

    /// How long after the tick a [`Scheduler`](crate::Scheduler) starts it.
    #[must_use]
    pub fn start_delay(&self) -> Duration {
        self.inner.settings.delay
    }

    /// To pause it, to resume it, to ask for a run, and to look at what has become of its runs.
    #[must_use]
    pub fn control(&self) -> &JobControl {
        &self.inner.control
    }

    /// Runs the job for the slot that `at` belongs to, if nobody else does or has done: takes the lock, claims the slot
    /// in the record, runs `work` under the lock, and writes down what became of it.
    ///
    /// `at` is the time of the tick, or simply now: the slot is the tick nearest to it within 5 % of the period and 30 s,
    /// else the last tick before it. With [`Misfire::CatchUp`](crate::Misfire::CatchUp) it may be an earlier one. With
    /// [`Schedule::manual`](crate::Schedule::manual) it is `at` itself.
    ///
    /// The text of an error of the job, cut to 300 letters, is kept in the record: no secrets there. A panic is written down as a
    /// failure and goes on.
    ///
    /// # Errors
    /// What the lock service did, a record that cannot be used, and a breaker that is open. When it happens before
    /// the slot is claimed, the slot is still free; when whether it was claimed cannot be found out, the job is not started.
    ///
    /// # Cancel safety
    /// Dropped before the claim it leaves nothing but perhaps a used slot; dropped during the run it drops the job, gives
    /// the lock back in the background, and the next run reports a crash.
    pub async fn run_tick<W: RunWork>(
        &self,
        at: impl Into<WallTime> + Send,
        work: W,
    ) -> Result<Outcome<W::Value, W::Error>> {
        if self.inner.sharded {
            let cure = "call run_shard for each of its shards, or let a Scheduler do so";
            return Err(Invalid::new(self.name(), "shards", "run_tick runs no job with shards", cure).into());
        }
        self.tick(0, Asked::Slot(at.into()), never(), work).await
    }

    /// As [`Job::run_tick`], for one shard of the job.
    ///
    /// # Errors
    /// As [`Job::run_tick`], and `Invalid` for a shard that the job does not have.
    ///
    /// # Cancel safety
    /// As [`Job::run_tick`].
    pub async fn run_shard<W: RunWork>(
        &self,
        shard: u32,
        at: impl Into<WallTime> + Send,
        work: W,
    ) -> Result<Outcome<W::Value, W::Error>> {
        self.tick(shard, Asked::Slot(at.into()), never(), work).await
    }

    /// Runs the job if somebody has asked for a run by hand ([`JobControl::trigger`]) and nobody has begun it; beside
    /// the schedule: no slot is used up. A run of a job with shards is asked for of each shard.
    ///
    /// # Errors
    /// As [`Job::run_shard`].
    ///
    /// # Cancel safety
    /// As [`Job::run_tick`].
    pub async fn run_triggered<W: RunWork>(&self, shard: u32, work: W) -> Result<Outcome<W::Value, W::Error>> {
        self.tick(shard, Asked::Trigger, never(), work).await
    }

    pub(crate) async fn tick<W: RunWork>(
        &self,
        shard: u32,
        asked: Asked,
        stop: watch::Receiver<bool>,
        work: W,
    ) -> Result<Outcome<W::Value, W::Error>> {
        let (lane, called) = (self.lane(shard)?, self.inner.now());
        let (slot, wanted) = match asked {
            Asked::Trigger => (called, Wanted::Trigger),
            Asked::Slot(at) => match slot::slot_of(self.ticks(), at) {
                Some(slot) => (slot, Wanted::Slot(slot)),
                None => return Ok(Outcome::Skipped(Skipped::Misfired { missed: 0, crashed: false })),
            },
        };
        let ahead = slot.since(called);
        let result = if ahead > slot::MOST_AHEAD {
            Ok(Outcome::Skipped(Skipped::ClockSkew { ahead }))
        } else {
            self.inner.run(lane, wanted, called, stop, work).await
        };
        match &result {
            Ok(Outcome::Skipped(reason)) => self.inner.tell(&JobEvent::Skipped { slot, reason: reason.clone() }),
            Ok(_) => {}
            Err(error) => self.inner.tell(&JobEvent::Errored { error: error.to_string() }),
        }
        result
    }

    pub(crate) fn lane(&self, shard: u32) -> Result<&Lane> {
        let lane = usize::try_from(shard).ok().and_then(|shard| self.inner.lanes.get(shard));
        Ok(lane.ok_or_else(|| {
            let problem = format!("there is no shard {shard} of {}", self.shards());
            Invalid::new(self.name(), "shards", problem, "they count from 0")
        })?)
    }
}

/// What a tick asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked {
    /// The slot of this time.
    Slot(WallTime),
    /// The run that was asked for by hand.
    Trigger,
}

impl Inner {
    pub(crate) fn now(&self) -> WallTime {
        WallTime::now(&self.settings.clock)
    }

    pub(crate) fn tell(&self, event: &JobEvent) {
        self.settings.events.tell(event);
    }

    pub(crate) fn rules(&self, lane: &Lane) -> Rules<'_> {
        Rules {
            ticks: &self.settings.ticks,
            misfire: self.settings.misfire,
            on_crash: self.settings.on_crash,
            delay: self.settings.delay,
            heeds_record: lane.marker.is_none(),
        }
    }
}

/// A stop that never comes.
fn never() -> watch::Receiver<bool> {
    watch::channel(false).1
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("name", &self.inner.name).field("shards", &self.shards()).finish_non_exhaustive()
    }
}
