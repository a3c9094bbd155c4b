//! What can be done to a server, and asked of it.

use std::time::Duration;

use tokio::time::timeout;

use crate::server::Source;
use crate::{FaultError, Requests, Server, Service, native, timing};

impl Server {
    /// Whether it answers a request within `limit` times the time factor: it does not while it is frozen or dead.
    ///
    /// # Cancel safety
    ///
    /// Only asks.
    pub async fn answers(&self, limit: Duration) -> bool {
        timeout(timing::scaled(limit), self.contact().version()).await.is_ok_and(|answer| answer.is_ok())
    }

    /// Stops all its processes with `SIGSTOP`. Connections still open and stay open, and nothing is answered.
    ///
    /// # Errors
    ///
    /// When it is not ours or does not run.
    ///
    /// # Cancel safety
    ///
    /// Some of the processes may be stopped; [`thaw`](Self::thaw) undoes it.
    pub async fn freeze(&self) -> Result<(), FaultError> {
        match &self.source {
            Source::Native(native) => native.freeze().await,
            #[cfg(feature = "container")]
            Source::Container(container) => container.freeze().await,
            Source::Joined(..) => Err(self.out_of_reach()),
        }
    }

    /// Sets the wall clock of a server with [`Options::own_clock`](crate::Options::own_clock), as an administrator would set that of
    /// its machine; what it counts by a clock that is never set goes on as before. Holds from the server's next look at the time.
    ///
    /// # Errors
    ///
    /// When it has none, or the file system refuses.
    pub fn set_clock(&self, offset: crate::ClockOffset) -> Result<(), FaultError> {
        match &self.source {
            Source::Native(native) => native.set_clock(offset),
            #[cfg(feature = "container")]
            Source::Container(_) => Err(FaultError::NoClock(self.service())),
            Source::Joined(..) => Err(self.out_of_reach()),
        }
    }

    /// Lets a frozen server go on with `SIGCONT`.
    ///
    /// # Errors
    ///
    /// When it is not ours or does not run.
    ///
    /// # Cancel safety
    ///
    /// The signals are sent at the first poll.
    pub async fn thaw(&self) -> Result<(), FaultError> {
        match &self.source {
            Source::Native(native) => native.thaw().await,
            #[cfg(feature = "container")]
            Source::Container(container) => container.thaw().await,
            Source::Joined(..) => Err(self.out_of_reach()),
        }
    }

    /// Kills all its processes with `SIGKILL`, and returns when they are gone. Its data and its port stay reserved.
    ///
    /// # Errors
    ///
    /// When it is not ours. None when it does not run.
    ///
    /// # Cancel safety
    ///
    /// The signal may have been sent; calling it again waits for the end.
    pub async fn kill(&self) -> Result<(), FaultError> {
        match &self.source {
            Source::Native(native) => native.kill().await,
            #[cfg(feature = "container")]
            Source::Container(container) => container.kill().await,
            Source::Joined(..) => Err(self.out_of_reach()),
        }
    }

    /// Ends it in order, or by [`kill`](Self::kill) when that takes more than 5 s times the time factor.
    ///
    /// # Errors
    ///
    /// When it is not ours. None when it does not run.
    ///
    /// # Cancel safety
    ///
    /// It may go on stopping; calling it again waits for the end.
    pub async fn stop(&self) -> Result<(), FaultError> {
        match &self.source {
            Source::Native(native) => native.stop().await,
            #[cfg(feature = "container")]
            Source::Container(container) => container.stop().await,
            Source::Joined(..) => Err(self.out_of_reach()),
        }
    }

    /// Starts it again on the same port with the same data; first stops it if it runs.
    ///
    /// # Errors
    ///
    /// When it is not ours, or does not start.
    ///
    /// # Cancel safety
    ///
    /// It may be left stopped or half started; calling it again repairs that.
    pub async fn restart(&self) -> Result<(), FaultError> {
        match &self.source {
            Source::Native(native) => native.restart().await,
            #[cfg(feature = "container")]
            Source::Container(container) => container.restart().await,
            Source::Joined(..) => Err(self.out_of_reach()),
        }
    }

    /// Starts it again on the same port without any data; first kills it if it runs.
    ///
    /// # Errors
    ///
    /// When it is not ours, or does not start.
    ///
    /// # Cancel safety
    ///
    /// As [`restart`](Self::restart); the data is gone or not.
    pub async fn restart_empty(&self) -> Result<(), FaultError> {
        match &self.source {
            Source::Native(native) => native.restart_empty().await,
            #[cfg(feature = "container")]
            Source::Container(container) => container.restart_empty().await,
            Source::Joined(..) => Err(self.out_of_reach()),
        }
    }

    /// The client requests it has executed since its process was started, without this question.
    ///
    /// # Errors
    ///
    /// When it was not started with [`Options::counting`](crate::Options::counting) (etcd counts always), or does not answer.
    ///
    /// # Cancel safety
    ///
    /// Only asks.
    pub async fn requests(&self) -> Result<Requests, FaultError> {
        match &self.source {
            Source::Native(native) if self.service() != Service::Etcd => native.requests().await,
            _ if self.service() == Service::Etcd => native::etcd_requests(self.contact()).await,
            _ => Err(FaultError::NotCounting(self.service())),
        }
    }

    fn out_of_reach(&self) -> FaultError {
        if self.faults_allowed() {
            FaultError::OutOfReach(self.service())
        } else {
            FaultError::NotAllowed(self.service())
        }
    }
}
