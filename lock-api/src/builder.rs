//! The options of a locker.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::front::{Cohort, Core, Events, Keeper, LocalQueue, Releases, Watchdog};
use crate::{
    Capabilities, CircuitBreaker, Clock, DistributedLock, Drift, Error, LivenessKind, Locker, Observer, Options, Result,
};

/// Options of a [`Locker`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until build"]
pub struct LockerBuilder {
    backend: Arc<dyn DistributedLock>,
    ttl: Duration,
    drift: Drift,
    clock: Clock,
    renew_after: Option<Duration>,
    patience: Duration,
    local_queue: bool,
    cohort: Cohort,
    label: Option<Arc<str>>,
    observers: Vec<Arc<dyn Observer>>,
    circuit_breaker: bool,
}

impl LockerBuilder {
    pub(crate) fn new(backend: Arc<dyn DistributedLock>) -> Self {
        let Options { ttl, drift, clock, .. } = Options::default();
        let patience = Duration::from_secs(10);
        Self {
            backend,
            ttl,
            drift,
            clock,
            renew_after: None,
            patience,
            local_queue: true,
            cohort: Cohort::OFF,
            label: None,
            observers: Vec::new(),
            circuit_breaker: false,
        }
    }

    /// Takes ttl, drift and clock from the options of a URL.
    pub fn options(mut self, options: &Options) -> Self {
        self.ttl = options.ttl;
        self.drift = options.drift;
        self.clock = options.clock.clone();
        self
    }

    /// The ttl of requests that name none: 30 s. Raised to the backend's shortest.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long after a confirmation a lease is renewed: a third of it unless told otherwise. Sooner: more requests, and a
    /// longer outage is survived. A ttl of less than twice this is refused, and so is a backend that keeps a session alive
    /// instead of leases.
    pub const fn renew_after(mut self, time: Duration) -> Self {
        self.renew_after = Some(time);
        self
    }

    /// How far clocks may run apart: 0.01. Larger: holders stop earlier. Smaller: a fast server clock may let another in
    /// before the holder stops.
    pub const fn drift(mut self, drift: Drift) -> Self {
        self.drift = drift;
        self
    }

    /// The clock that deadlines are computed from; the backend must have the same.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// How long an acquire that waits sits through an outage: 10 s. Zero tells the first failure.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Whether the waiters of this process queue among themselves behind one contender: yes. Without it every acquire
    /// contends at the server, and the order is the server's.
    pub const fn local_queue(mut self, on: bool) -> Self {
        self.local_queue = on;
        self
    }

    /// How often one grant of the server is handed on inside this process before it goes back: never. With `cohort(32)` up to 33 tasks
    /// that wait here hold the lock one after the other, each with a larger token, without a request; other processes wait
    /// for that long, and at most for [`LockerBuilder::cohort_time`] and the last holder. Owner, ttl and deadline stay those of the one
    /// grant, whose renewals go on; it is handed on only while it is held and half of its lease is left. Leases that are not renewed
    /// go back each time, and so does a lock that nobody of this process waits for.
    pub const fn cohort(mut self, handoffs: u8) -> Self {
        self.cohort.handoffs = handoffs;
        self
    }

    /// How long after the server's grant a lock may still be handed on inside this process: 100 ms. Longer: fewer requests, and
    /// longer waits elsewhere.
    pub const fn cohort_time(mut self, time: Duration) -> Self {
        self.cohort.time = time;
        self
    }

    /// A word about this process for people who inspect locks; requests may have their own.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Who is told of every event; called again, one more.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Whether acquires fail at once while the service is out of reach, told by [`Event::CircuitOpened`](crate::Event::CircuitOpened): no.
    /// After five in a row that could not reach it none is sent for a second, later for up to ten; then one is, and its answer
    /// decides. For services that would otherwise spend the time of each request on an acquire that cannot succeed.
    /// Renewals and releases are never held back.
    pub const fn circuit_breaker(mut self, on: bool) -> Self {
        self.circuit_breaker = on;
        self
    }

    /// What the backend promises: an observer may want to know of whom it is told.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    /// The locker.
    ///
    /// # Errors
    /// `Config` outside a tokio runtime: the watchdog needs one; and with a cohort but no local queue. `Unsupported` when
    /// [`LockerBuilder::renew_after`] is set and the backend has no leases to renew.
    pub fn build(self) -> Result<Locker> {
        let handle = Handle::try_current().map_err(|e| {
            Error::config("a locker is made inside a tokio runtime: its watchdog runs there").with_source(e)
        })?;
        let capabilities = self.backend.capabilities();
        self.check_renewal(&capabilities)?;
        self.check_cohort()?;
        let core = Arc::new(Core {
            ttl: self.ttl.max(capabilities.ttl.min),
            breaker: self.circuit_breaker.then(|| CircuitBreaker::new(self.clock.clone())),
            events: Events::new(capabilities.backend, self.observers),
            keeper: Keeper::start(&handle),
            queue: LocalQueue::default(),
            watchdog: Watchdog::new(),
            releases: Releases::default(),
            closed: AtomicBool::new(false),
            backend: self.backend,
            clock: self.clock,
            drift: self.drift,
            renew_after: self.renew_after,
            patience: self.patience,
            label: self.label,
            local_queue: self.local_queue,
            cohort: self.cohort,
            handle,
            capabilities,
        });
        Watchdog::start(&core);
        Ok(Locker::of(core))
    }

    fn check_cohort(&self) -> Result<()> {
        if self.cohort.handoffs > 0 && !self.local_queue {
            return Err(Error::config(
                "a cohort hands locks on in the local queue, which is off: leave it on, or set no cohort",
            ));
        }
        Ok(())
    }

    fn check_renewal(&self, capabilities: &Capabilities) -> Result<()> {
        match (self.renew_after, capabilities.liveness) {
            (None, _) => Ok(()),
            (Some(time), LivenessKind::Lease) if !time.is_zero() => Ok(()),
            (Some(_), LivenessKind::Lease) => Err(Error::config("a lease cannot be renewed after no time at all")),
            (Some(_), kept) => Err(Error::unsupported(format!(
                "{} renews no leases: the {} keeps its locks, and no time between renewals can be set",
                capabilities.backend,
                if kept == LivenessKind::Session { "session" } else { "process" },
            ))),
        }
    }
}
