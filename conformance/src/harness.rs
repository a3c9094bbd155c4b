//! What the suite needs to know of a backend, and the faults that the backend can make.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Claim, DistributedLock, FencedRegister, LockName, Result, async_trait};

/// One client of the backend under test.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Client {
    /// The client: a session of its own.
    pub lock: Arc<dyn DistributedLock>,
    /// Its way to the server, where the harness can disturb it.
    pub link: Option<Arc<dyn Link>>,
    own: Option<Arc<dyn Any + Send + Sync>>,
}

impl Client {
    /// A client whose link cannot be disturbed.
    pub fn new(lock: impl DistributedLock) -> Self {
        Self { lock: Arc::new(lock), link: None, own: None }
    }

    /// The client with a link that can be disturbed.
    #[must_use]
    pub fn with_link(mut self, link: Arc<dyn Link>) -> Self {
        self.link = Some(link);
        self
    }

    /// The client with something by which the harness knows it again: the backend's own client, a session's number.
    #[must_use]
    pub fn with_own<T: Any + Send + Sync>(mut self, own: T) -> Self {
        self.own = Some(Arc::new(own));
        self
    }

    /// What [`Client::with_own`] was given, for [`Harness::end_session`] for one.
    #[must_use]
    pub fn own<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.own.as_deref()?.downcast_ref()
    }
}

/// One client of the fenced register of the backend under test.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RegisterClient {
    /// The client.
    pub register: Arc<dyn FencedRegister>,
    /// Its way to the server, where the harness can disturb it.
    pub link: Option<Arc<dyn Link>>,
}

impl RegisterClient {
    /// A client whose link cannot be disturbed.
    pub fn new(register: impl FencedRegister) -> Self {
        Self { register: Arc::new(register), link: None }
    }

    /// The client with a link that can be disturbed.
    #[must_use]
    pub fn with_link(mut self, link: Arc<dyn Link>) -> Self {
        self.link = Some(link);
        self
    }
}

/// The way between one client and the server: a TCP proxy in most harnesses.
#[async_trait]
pub trait Link: fmt::Debug + Send + Sync {
    /// Silence in both directions: nothing passes, nothing is closed. Bytes on their way are kept and pass after
    /// [`Link::heal`]. For the server the client hangs; for the client the server does.
    async fn silence(&self);
    /// Ends every disturbance.
    async fn heal(&self);
    /// Closes the connections once; the client may connect again at once.
    async fn cut(&self);
    /// The next request reaches the server, its reply is swallowed, then the connection is closed once.
    async fn swallow_reply(&self);
    /// As [`Link::swallow_reply`], and new connections are refused from then on, until [`Link::heal`].
    async fn swallow_reply_and_refuse(&self) -> Fault {
        Fault::not_offered("the harness's links refuse no connections")
    }
    /// Everything takes this much longer from now on, in each direction, until [`Link::heal`].
    async fn delay(&self, _time: Duration) -> Fault {
        Fault::not_offered("the harness's links have no delay")
    }
    /// What the server sends by itself is kept until [`Link::heal`]; requests and their replies pass.
    async fn keep_pushes(&self) -> Fault {
        Fault::not_offered("the harness's links do not tell replies from what the server sends by itself")
    }
}

/// What became of a fault that the suite asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Fault {
    /// It was made.
    Done,
    /// This harness does not make it, for this reason; the check is ignored and says so.
    NotOffered(String),
}

impl Fault {
    /// The fault is not made, for this reason.
    pub fn not_offered(reason: impl Into<String>) -> Self {
        Self::NotOffered(reason.into())
    }
}

/// A backend under test.
///
/// Only [`Harness::connect`] is needed to begin with; each further method opens more checks.
#[async_trait]
pub trait Harness: fmt::Debug + Send + Sync + 'static {
    /// A new client in the harness's namespace: a new session, through a link of its own where the harness has links.
    /// Every call connects to the same server and namespace, so that the clients compete.
    async fn connect(&self) -> Result<Client>;

    /// A new client of the same server in another namespace. `None` when there are no namespaces.
    async fn connect_in(&self, _namespace: &str) -> Result<Option<Client>> {
        Ok(None)
    }

    /// A new client of the backend's fenced register, in the harness's namespace and through a link of its own where there
    /// are links. `None` when the backend has none.
    async fn register(&self) -> Result<Option<RegisterClient>> {
        Ok(None)
    }

    /// As [`Harness::register`], in another namespace: the one that [`Harness::connect_in`] makes of this word.
    async fn register_in(&self, _namespace: &str) -> Result<Option<RegisterClient>> {
        Ok(None)
    }

    /// A ttl for the checks: short, since they wait for its end. Not below the backend's minimum.
    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// The limit that the clients have for one call to the server: with a silent server they answer with an error after
    /// this time.
    fn op_timeout(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// Removes the claim's record at the server behind the client's back, as an operator would by hand.
    async fn revoke(&self, _claim: &Claim) -> Fault {
        Fault::not_offered("the harness cannot remove a record by hand")
    }

    /// Ends the session of this client at the server, now and for good.
    async fn end_session(&self, _client: &Client) -> Fault {
        Fault::not_offered("the harness cannot end a session at the server")
    }

    /// Whether the server tells a client at once that [`Harness::end_session`] has ended its session: then its holds are told lost
    /// within 100 ms, else at their next renewal.
    fn tells_the_end_of_sessions(&self) -> bool {
        false
    }

    /// How many claims the server knows on this name: holder and waiters, without counters and other lasting records.
    async fn entries(&self, _name: &LockName) -> Option<usize> {
        None
    }

    /// Does what a holder's application may do on the server beside holding the lock, where a waiter could stand in its
    /// way (building an index, for one); answers when it is done.
    async fn work_while_waited_for(&self) -> Fault {
        Fault::not_offered("nothing that a holder does on this server could be blocked by a waiter")
    }

    /// The largest token number that the server has drawn so far (for this name or in all), where it can be read
    /// without drawing one.
    async fn last_token(&self, _name: &LockName) -> Option<u64> {
        None
    }

    /// Stops the server from running without closing anything.
    async fn freeze_server(&self) -> Fault {
        Fault::not_offered("the harness cannot freeze the server")
    }

    /// Lets a frozen server run on.
    async fn thaw_server(&self) -> Fault {
        Fault::not_offered("the harness cannot thaw the server")
    }

    /// Ends the server as a power cut would.
    async fn kill_server(&self) -> Fault {
        Fault::not_offered("the harness cannot kill the server")
    }

    /// Starts the killed server again with the data that its configuration kept; answers when it is ready.
    async fn restart_server(&self) -> Fault {
        Fault::not_offered("the harness cannot restart the server")
    }

    /// Moves the clock when the backend runs on one that only tests move; otherwise lets real time go by.
    async fn pass(&self, time: Duration) {
        lockyard_api::Clock::system().sleep(time).await;
    }
}
