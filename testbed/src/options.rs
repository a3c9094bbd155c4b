//! How a server is started.

/// What differs from the plain start of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    pub(crate) args: Vec<String>,
    pub(crate) from: From,
    pub(crate) counting: bool,
    pub(crate) own_clock: bool,
}

/// Where a server may come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum From {
    #[default]
    Anywhere,
    Process,
    #[cfg(feature = "container")]
    Container,
}

impl Options {
    /// The plain start.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds arguments behind those of the plain start, where the last one wins.
    ///
    /// Redis: `["--appendonly", "yes"]`; Postgres: `["-c", "fsync=off"]`; etcd: `["--quota-backend-bytes", "8000000"]`;
    /// ZooKeeper: lines of `zoo.cfg`, `["syncEnabled=false"]`. A server that is joined takes none: a start with arguments never joins.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Starts a process of this machine or nothing: no server of the environment is joined, no container is run.
    #[must_use]
    pub fn native_only(mut self) -> Self {
        self.from = From::Process;
        self
    }

    /// Runs a container or nothing.
    #[cfg(feature = "container")]
    #[must_use]
    pub fn container_only(mut self) -> Self {
        self.from = From::Container;
        self
    }

    /// Lets [`Server::requests`](crate::Server::requests) count on every service.
    ///
    /// Counting costs time at each request (Redis feeds a `MONITOR`, Postgres and ZooKeeper write a log line): measure times and
    /// count requests on different servers. etcd counts anyway, at no cost.
    #[must_use]
    pub fn counting(mut self) -> Self {
        self.counting = true;
        self
    }

    /// Gives the server a wall clock of its own, for [`Server::set_clock`](crate::Server::set_clock): a process of this machine,
    /// with a library before that of C, which a C compiler makes.
    #[must_use]
    pub fn own_clock(mut self) -> Self {
        self.own_clock = true;
        self.from = From::Process;
        self
    }

    /// Whether a server of somebody else will do: it has no arguments of ours, and counts nothing.
    pub(crate) fn may_join(&self) -> bool {
        self.from == From::Anywhere && !self.counting && self.args.is_empty()
    }

    pub(crate) fn may_run_a_process(&self) -> bool {
        matches!(self.from, From::Anywhere | From::Process)
    }

    /// Whether a container will do: its log and its command line are out of reach for counting.
    #[cfg(feature = "container")]
    pub(crate) fn may_run_a_container(&self) -> bool {
        self.from != From::Process && !self.counting
    }

    /// The value of `--requirepass`, when one was given to Redis.
    pub(crate) fn redis_password(&self) -> Option<&str> {
        let flag = self.args.iter().rposition(|arg| arg == "--requirepass")?;
        self.args.get(flag + 1).map(String::as_str)
    }
}
