//! How a memory server works.

use std::time::Duration;

use lockyard_api::{Capabilities, Clock, Fencing, LivenessKind, Queueing, TtlRange, Waking};

/// What keeps holds alive on a memory server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum MemoryLiveness {
    /// Each hold has a lease of its own, which its holder renews.
    #[default]
    Lease,
    /// The client's session keeps all its holds; the client's heartbeat keeps the session.
    Session,
}

/// How a memory server works: the defaults are a first-in-first-out queue, leases, and the machine's clock.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MemoryOptions {
    /// In which order waiters get a name. Default `Fifo`: a release hands the name to the next waiter. `Unordered`: it is
    /// free for whoever comes first, newcomers too.
    pub queue: Queueing,
    /// What keeps holds alive. Default `Lease`.
    pub liveness: MemoryLiveness,
    /// The timeout of sessions, and with `Session` the shortest ttl that claims may ask for. Default 10 s. Longer: the
    /// holds of a dead client stay longer. Shorter: a busy process loses its session sooner.
    pub session_ttl: Duration,
    /// How long a call waits on a silenced [`MemoryLink`](crate::MemoryLink). Default 5 s.
    pub op_timeout: Duration,
    /// The clock of server and clients. Default the machine's; a manual one makes virtual time.
    pub clock: Clock,
}

impl MemoryOptions {
    /// The longest lease.
    const MAX_TTL: Duration = Duration::from_secs(365 * 24 * 3600);
    /// The shortest lease.
    const MIN_TTL: Duration = Duration::from_millis(10);

    /// The options with this order of waiters.
    #[must_use]
    pub const fn queue(mut self, queue: Queueing) -> Self {
        self.queue = queue;
        self
    }

    /// The options with holds kept alive in this way.
    #[must_use]
    pub const fn liveness(mut self, liveness: MemoryLiveness) -> Self {
        self.liveness = liveness;
        self
    }

    /// The options with this session timeout.
    #[must_use]
    pub const fn session_ttl(mut self, ttl: Duration) -> Self {
        self.session_ttl = ttl;
        self
    }

    /// The options with this limit for one call.
    #[must_use]
    pub const fn op_timeout(mut self, timeout: Duration) -> Self {
        self.op_timeout = timeout;
        self
    }

    /// The options on this clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// How long a waiter sleeps at most before it asks again.
    pub(crate) fn recheck(ttl: Duration) -> Duration {
        ttl.mul_f64(0.4).min(Duration::from_secs(15))
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        let session = self.liveness == MemoryLiveness::Session;
        let min = if session { self.session_ttl } else { Self::MIN_TTL };
        let ttl = TtlRange::new(min, Self::MAX_TTL, Duration::from_millis(1));
        let mut capabilities = Capabilities::new("memory", ttl);
        capabilities.queue = self.queue;
        capabilities.wake = Waking::Pushed;
        capabilities.liveness = if session { LivenessKind::Session } else { LivenessKind::Lease };
        capabilities.fencing = Fencing::Volatile;
        capabilities.expires_hung = true;
        capabilities.slack = Duration::from_millis(50);
        capabilities.recheck = Duration::from_secs(1);
        capabilities.fixed_lease = !session;
        capabilities.inspect = true;
        capabilities
    }
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            queue: Queueing::Fifo,
            liveness: MemoryLiveness::Lease,
            session_ttl: Duration::from_secs(10),
            op_timeout: Duration::from_secs(5),
            clock: Clock::system(),
        }
    }
}
