//! What a check works with: the harness, the capabilities, fresh names and claims, and the bounds of time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Capabilities, Claim, Clock, Fencing, Grant, Liveness, LivenessKind, LockName, Queueing, Waking};

use crate::timing::scaled;
use crate::{Checked, Client, Harness, Link, Stop};

/// The surroundings of one check.
#[derive(Clone)]
pub struct Context {
    harness: Arc<dyn Harness>,
    capabilities: Capabilities,
}

impl Context {
    /// Connects once, to learn what the backend promises.
    ///
    /// # Errors
    /// What connecting answered.
    pub async fn new(harness: Arc<dyn Harness>) -> lockyard_api::Result<Self> {
        let capabilities = harness.connect().await?.lock.capabilities();
        Ok(Self { harness, capabilities })
    }

    /// The backend under test.
    #[must_use]
    pub fn harness(&self) -> &dyn Harness {
        &*self.harness
    }

    /// What the backend promises.
    #[must_use]
    pub const fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The clock of the checks.
    #[must_use]
    pub const fn clock(&self) -> Clock {
        Clock::system()
    }

    pub(crate) async fn client(&self) -> Checked<Client> {
        Ok(self.harness.connect().await?)
    }

    pub(crate) async fn two(&self) -> Checked<(Client, Client)> {
        Ok((self.client().await?, self.client().await?))
    }

    pub(crate) async fn three(&self) -> Checked<(Client, Client, Client)> {
        Ok((self.client().await?, self.client().await?, self.client().await?))
    }

    /// A name that nobody has used before.
    #[expect(clippy::unused_self, clippy::expect_used, reason = "hexadecimal digits are a name")]
    pub(crate) fn name(&self) -> LockName {
        LockName::new(format!("check-{:016x}", fastrand::u64(..))).expect("digits are a name")
    }

    /// A claim that does not run out while a check runs, renewed or not.
    pub(crate) fn claim(&self, name: &LockName) -> Claim {
        Claim::new(name.clone(), self.long_ttl())
    }

    /// A claim that the check will see run out.
    pub(crate) fn short(&self, name: &LockName) -> Claim {
        Claim::new(name.clone(), self.harness.ttl())
    }

    /// A claim for many hand-overs: its re-check comes soon, and it runs out only on a machine that stands still.
    pub(crate) fn brisk(&self, name: &LockName) -> Claim {
        let ttl = scaled(Duration::from_secs(4)).max(self.harness.ttl()).min(self.long_ttl());
        Claim::new(name.clone(), ttl).queueing()
    }

    /// Whether a hold may have run out by now, since this machine stood still.
    pub(crate) fn is_over(&self, grant: &Grant) -> bool {
        self.granted_ttl(grant).is_ok_and(|ttl| self.clock().now().since(grant.valid_from) >= ttl)
    }

    /// Long enough for all that a check does, short enough that a waiter's re-check comes within a check.
    pub(crate) fn long_ttl(&self) -> Duration {
        scaled(Duration::from_secs(20)).clamp(self.harness.ttl(), self.capabilities.ttl.max)
    }

    /// How long anything may take that should happen at once.
    #[expect(clippy::unused_self, reason = "reads like the other bounds")]
    pub(crate) fn patience(&self) -> Duration {
        scaled(Duration::from_secs(5))
    }

    /// How long a waiter with this claim may sleep when every message is lost.
    pub(crate) fn recheck(&self, claim: &Claim) -> Duration {
        self.capabilities.recheck.max(claim.ttl) + self.patience()
    }

    /// How long after the end of a hold its waiter may take to notice.
    pub(crate) fn wake(&self, claim: &Claim) -> Duration {
        match self.capabilities.wake {
            Waking::Pushed => self.patience(),
            _ => self.recheck(claim),
        }
    }

    /// How long a hold of a holder that is gone may block others.
    pub(crate) fn takeover(&self, granted: Duration) -> Duration {
        granted + self.capabilities.slack + self.patience()
    }

    /// The lease behind a grant. `Ignored` where nothing but the process ends the hold.
    #[expect(clippy::unused_self, reason = "reads like the other bounds")]
    pub(crate) fn granted_ttl(&self, grant: &Grant) -> Checked<Duration> {
        match &grant.liveness {
            Liveness::Lease { ttl } => Ok(*ttl),
            Liveness::Session(watch) => Ok(watch.lease().1),
            _ => Err(Stop::ignored("holds end with their process")),
        }
    }

    pub(crate) fn needs_leases(&self) -> Checked {
        self.needs(self.capabilities.liveness == LivenessKind::Lease, "no capability: leases (liveness)")
    }

    pub(crate) fn needs_sessions(&self) -> Checked {
        self.needs(self.capabilities.liveness == LivenessKind::Session, "no capability: sessions (liveness)")
    }

    pub(crate) fn needs_fifo(&self) -> Checked {
        self.needs(self.is_fifo(), "no capability: fifo (queue)")
    }

    pub(crate) fn needs_fencing(&self) -> Checked {
        self.needs(self.capabilities.fencing != Fencing::None, "no capability: fencing")
    }

    pub(crate) fn needs_expiry(&self) -> Checked {
        self.needs(self.capabilities.expires_hung, "no capability: expires_hung")
    }

    pub(crate) fn needs_inspect(&self) -> Checked {
        self.needs(self.capabilities.inspect, "no capability: inspect")
    }

    #[expect(clippy::unused_self, reason = "reads like the other needs")]
    pub(crate) fn needs(&self, given: bool, reason: &str) -> Checked {
        if given { Ok(()) } else { Err(Stop::ignored(reason)) }
    }

    pub(crate) fn is_fifo(&self) -> bool {
        self.capabilities.queue == Queueing::Fifo
    }

    pub(crate) async fn entries(&self, name: &LockName) -> Checked<usize> {
        let entries = self.harness.entries(name).await;
        entries.ok_or_else(|| Stop::ignored("the harness cannot count the entries of a name"))
    }

    /// Hangs a client as a stopped process would hang: its leases are not renewed anyway, its session's heartbeat stops.
    pub(crate) async fn hang(&self, client: &Client) -> Checked {
        if self.capabilities.liveness != LivenessKind::Lease || client.link.is_some() {
            client.needs_link()?.silence().await;
        }
        Ok(())
    }

    pub(crate) async fn unhang(&self, client: &Client) {
        if let Some(link) = &client.link {
            link.heal().await;
        }
    }
}

impl Client {
    pub(crate) fn needs_link(&self) -> Checked<&dyn Link> {
        self.link.as_deref().ok_or_else(|| Stop::ignored("the harness has no links to disturb"))
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("harness", &self.harness).field("backend", &self.capabilities.backend).finish()
    }
}
