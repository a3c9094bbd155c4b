//! The scenarios, with their parameters.

use std::fmt;

/// Which names the cycles of `uncontended` take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Names {
    /// The same name each time: the headline.
    Same,
    /// A name that was never used before, each time.
    Fresh,
}

/// Whose clients the contenders are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Clients {
    /// Each contender has a client of its own: they meet at the server.
    Own,
    /// All are tasks of one client: they meet in its local queue.
    One,
    /// All are tasks of one client without a local queue: they meet at the server, over what connections it has.
    Unqueued,
    /// All are tasks of one client that hands a lock on 32 times before it goes back to the server.
    Cohort,
    /// Each has a client of its own, evenly spread over so many processes.
    Spread(usize),
}

/// The state of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Machine {
    /// Nothing else runs; processors halt between messages.
    Idle,
    /// Spinners of the lowest priority keep the processors from halting.
    Awake,
}

/// What happens to a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// Its process is killed: the kernel closes its connections.
    Killed,
    /// Its process is stopped: its connections stand and say nothing.
    Frozen,
    /// Nothing passes between it and the server any more, and nobody is told.
    CutOff,
}

impl Fault {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Frozen => "frozen",
            Self::CutOff => "cut_off",
        }
    }
}

/// One scenario with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scenario {
    /// The front end over a backend that does nothing: processor time a cycle.
    Noop,
    /// Acquire and release, one client, nobody else.
    Uncontended(Names, Machine),
    /// So many tasks of one client, a name each.
    Parallel(usize),
    /// So many contenders on one name.
    Contended(usize, Clients),
    /// From the call of release to the waiter of another client that holds.
    Handoff,
    /// Cycles that are due at a fixed rate a second, timed from when they were due.
    OpenLoop(u64),
    /// What the server has to do for one holder and so many waiters that only wait: each with a client of its own in this
    /// process, or as tasks of one client a process, evenly spread over several.
    WaitingCost(usize, usize),
    /// What so many held locks of one client cost.
    HoldCost(usize),
    /// How many connections one client has for so many names: held, and waited for.
    Connections(usize),
    /// From a fault of the holder to the next grant.
    Takeover(Fault),
    /// What a crash and restart of the server does to holds, to grants and to tokens.
    Failover,
}

impl Scenario {
    /// The ids of all scenarios, in the order of reports.
    pub const IDS: [&str; 11] = [
        "noop",
        "uncontended",
        "parallel",
        "contended",
        "handoff",
        "open_loop",
        "waiting_cost",
        "hold_cost",
        "connections",
        "takeover",
        "failover",
    ];

    /// The id in reports.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Uncontended(..) => "uncontended",
            Self::Parallel(_) => "parallel",
            Self::Contended(..) => "contended",
            Self::Handoff => "handoff",
            Self::OpenLoop(_) => "open_loop",
            Self::WaitingCost(..) => "waiting_cost",
            Self::HoldCost(_) => "hold_cost",
            Self::Connections(_) => "connections",
            Self::Takeover(_) => "takeover",
            Self::Failover => "failover",
        }
    }

    /// How many contend, or work side by side; of `hold_cost` and `connections`, how many names.
    #[must_use]
    pub const fn contenders(self) -> usize {
        match self {
            Self::Noop | Self::Uncontended(..) => 1,
            Self::Parallel(n)
            | Self::Contended(n, _)
            | Self::WaitingCost(n, _)
            | Self::HoldCost(n)
            | Self::Connections(n) => n,
            Self::OpenLoop(_) => crate::measure::OPEN_LOOP_TASKS,
            Self::Handoff | Self::Takeover(_) | Self::Failover => 2,
        }
    }

    /// Over how many processes the contenders are spread.
    #[must_use]
    pub const fn processes(self) -> usize {
        match self {
            Self::Contended(_, Clients::Spread(processes)) | Self::WaitingCost(_, processes) => processes,
            _ => 1,
        }
    }

    /// What happens to the holder.
    #[must_use]
    pub const fn fault(self) -> Option<&'static str> {
        match self {
            Self::Takeover(fault) => Some(fault.as_str()),
            Self::Failover => Some("restart"),
            _ => None,
        }
    }

    /// How many cycles are due a second.
    #[must_use]
    pub const fn rate(self) -> Option<u64> {
        match self {
            Self::OpenLoop(rate) => Some(rate),
            _ => None,
        }
    }

    /// The same with a handful of everything.
    pub(crate) const fn tiny(self) -> Self {
        match self {
            Self::Contended(_, Clients::Spread(_)) => Self::Contended(4, Clients::Spread(2)),
            Self::Contended(64, clients) => Self::Contended(6, clients),
            Self::WaitingCost(_, 2..) => Self::WaitingCost(6, 2),
            Self::WaitingCost(..) => Self::WaitingCost(3, 1),
            Self::HoldCost(_) => Self::HoldCost(20),
            Self::Connections(_) => Self::Connections(6),
            other => other,
        }
    }

    pub(crate) const fn local_queue(self) -> &'static str {
        match self {
            Self::Contended(_, Clients::Unqueued) => "off",
            Self::Contended(_, Clients::Cohort) => "cohort",
            _ => "on",
        }
    }

    pub(crate) const fn clients(self) -> &'static str {
        match self {
            Self::Contended(_, Clients::Own | Clients::Spread(_))
            | Self::Handoff
            | Self::WaitingCost(_, 1)
            | Self::Takeover(_)
            | Self::Failover => "own",
            _ => "one",
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uncontended(Names::Fresh, _) => "fresh",
            Self::Parallel(_) | Self::OpenLoop(_) | Self::HoldCost(_) | Self::Connections(_) => "each",
            _ => "same",
        }
    }

    pub(crate) const fn machine(self) -> &'static str {
        match self {
            Self::Uncontended(_, Machine::Awake) => "awake",
            _ => "idle",
        }
    }

    /// Whether throughput, not latency, is compared with the floor.
    pub(crate) const fn is_throughput(self) -> bool {
        matches!(self, Self::Parallel(_) | Self::Contended(..))
    }

    /// Whether it mostly waits, so that it is measured on several servers at once.
    pub(crate) const fn mostly_waits(self) -> bool {
        matches!(self, Self::WaitingCost(..) | Self::HoldCost(_) | Self::Connections(_) | Self::Takeover(_))
            || matches!(self, Self::Failover)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())?;
        match self {
            Self::Noop | Self::Handoff | Self::Failover => Ok(()),
            Self::Uncontended(..) => write!(f, " ({} name, {} machine)", self.name(), self.machine()),
            Self::Parallel(n) | Self::HoldCost(n) | Self::Connections(n) | Self::WaitingCost(n, 1) => {
                write!(f, " ({n})")
            }
            Self::WaitingCost(n, processes) => write!(f, " ({n}, {processes} processes)"),
            Self::OpenLoop(rate) => write!(f, " ({rate}/s)"),
            Self::Takeover(fault) => write!(f, " ({})", fault.as_str().replace('_', " ")),
            Self::Contended(n, Clients::Own) => write!(f, " ({n}, own clients)"),
            Self::Contended(n, Clients::One) => write!(f, " ({n}, one client)"),
            Self::Contended(n, Clients::Unqueued) => write!(f, " ({n}, one client, no local queue)"),
            Self::Contended(n, Clients::Cohort) => write!(f, " ({n}, one client, a cohort)"),
            Self::Contended(n, Clients::Spread(processes)) => write!(f, " ({n}, {processes} processes)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_tell_scenarios_of_one_id_apart() {
        let contended = [Clients::Own, Clients::One, Clients::Unqueued, Clients::Spread(8)].map(|clients| {
            let scenario = Scenario::Contended(64, clients);
            assert!(Scenario::IDS.contains(&scenario.id()));
            (scenario.clients(), scenario.processes(), scenario.local_queue())
        });
        assert_eq!(contended, [("own", 1, "on"), ("one", 1, "on"), ("one", 1, "off"), ("own", 8, "on")]);
        let waiting = Scenario::WaitingCost(1000, 20);
        assert_eq!((waiting.clients(), waiting.processes()), ("one", 20));
        assert_eq!(waiting.to_string(), "waiting_cost (1000, 20 processes)");
        assert_eq!(Scenario::Takeover(Fault::CutOff).fault(), Some("cut_off"));
    }
}
