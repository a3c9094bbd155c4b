//! A server that runs as a process of this machine.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::clock::{ClockOffset, WallClock};
use crate::home::Home;
use crate::launch::{Launch, Member, Site};
use crate::monitor::Monitor;
use crate::ports::Port;
use crate::process::{is_going, is_stopped, kill_members, members, signal_all};
use crate::ready::Contact;
use crate::requests::Requests;
use crate::timing::{eventually, scaled};
use crate::wire;
use crate::{FailedStart, FaultError, Options, Service};

/// `initdb` takes most of a second of an idle machine, and far more of a busy one.
const PREPARE_LIMIT: Duration = Duration::from_secs(60);
const START_LIMIT: Duration = Duration::from_secs(15);
/// A member of an ensemble serves once it has found the others, and they have elected a leader.
const ELECTION_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// How long the kernel may take over a signal: a process that waits for the disk gets it when it wakes.
const SIGNAL_LIMIT: Duration = Duration::from_secs(10);
/// How often a start is repeated because somebody took the port first.
const PORT_TRIES: usize = 5;
/// How much of the log an error shows.
const TAIL: u64 = 4096;

/// The process, its ports and its files. Dropped, it ends the process and removes the files.
#[derive(Debug)]
pub(crate) struct Native {
    pub(crate) contact: Contact,
    run: Mutex<Run>,
    launcher: Arc<dyn Launch>,
    site: Site,
    own_clock: Option<WallClock>,
    _ports: Vec<Port>,
    home: Home,
}

#[derive(Debug, Default)]
struct Run {
    child: Option<Child>,
    monitor: Option<Arc<Monitor>>,
}

impl Native {
    /// Starts the server and returns it with its version.
    pub(crate) async fn start(
        service: Service,
        launcher: Arc<dyn Launch>,
        options: Options,
    ) -> Result<(Self, String), FailedStart> {
        let mut tries = 1;
        loop {
            let ports: io::Result<Vec<Port>> = (0..2).map(|_| Port::reserve()).collect();
            let settle = |ports| Self::settle(service, Arc::clone(&launcher), options.clone(), ports, None);
            let native = ports.and_then(settle).map_err(|error| no_place(service, &error))?;
            match native.launch().await {
                Ok(version) => return Ok((native, version)),
                Err(failed) if tries < PORT_TRIES && lost_its_port(&failed) => tries += 1,
                Err(failed) => return Err(failed),
            }
        }
    }

    /// One member of an ensemble: it answers once enough of the others are started.
    pub(crate) async fn start_member(
        service: Service,
        launcher: Arc<dyn Launch>,
        options: Options,
        ports: Vec<Port>,
        member: Member,
    ) -> Result<(Self, String), FailedStart> {
        let settled = Self::settle(service, launcher, options, ports, Some(member));
        let native = settled.map_err(|error| no_place(service, &error))?;
        let version = native.launch().await?;
        Ok((native, version))
    }

    /// The first port is that of clients, the second that of other servers.
    fn settle(
        service: Service,
        launcher: Arc<dyn Launch>,
        options: Options,
        ports: Vec<Port>,
        member: Option<Member>,
    ) -> io::Result<Self> {
        let home = Home::new()?;
        let own_clock = options.own_clock.then(|| WallClock::new(home.path())).transpose().map_err(io::Error::other)?;
        let mut contact = Contact::new(service, (Ipv4Addr::LOCALHOST, ports[0].number()).into());
        if service == Service::Redis {
            contact.password = options.redis_password().map(str::to_owned);
        }
        let site = Site {
            data: home.data(),
            home: home.path().to_owned(),
            port: ports[0].number(),
            peer_port: ports[1].number(),
            member,
            options,
        };
        Ok(Self { contact, run: Mutex::default(), launcher, site, own_clock, _ports: ports, home })
    }

    /// Runs the server on its port and its data until it answers.
    async fn launch(&self) -> Result<String, FailedStart> {
        let started = self.bring_up().await;
        started.map_err(|reason| {
            let log = tail(&self.log()).unwrap_or_default();
            kill_members(self.home.path());
            FailedStart::new(self.service(), reason).with_log(log)
        })
    }

    async fn bring_up(&self) -> Result<String, String> {
        let (launcher, site) = (Arc::clone(&self.launcher), self.site.clone());
        let prepared = timeout(scaled(PREPARE_LIMIT), spawn_blocking(move || launcher.prepare(&site))).await;
        prepared.map_err(|_| "its data was not made in time")?.map_err(text)?.map_err(text)?;
        self.run().child = Some(self.spawn().map_err(|error| format!("its program does not run: {error}"))?);
        let limit = if self.site.member.is_some() { ELECTION_LIMIT } else { START_LIMIT };
        let version = self.contact.version_in(limit, || self.is_running()).await?;
        if self.site.options.counting && self.service() == Service::Redis {
            let contact = self.contact.clone();
            let monitor = spawn_blocking(move || Monitor::attach(&contact)).await.map_err(text)?.map_err(text)?;
            self.run().monitor = Some(Arc::new(monitor));
        }
        Ok(version)
    }

    /// A process group of its own: what a terminal or a test runner sends to the group of the test is not meant for the server.
    fn spawn(&self) -> io::Result<Child> {
        let log = File::create(self.log())?;
        let mut command = self.launcher.command(&self.site);
        if let Some(clock) = &self.own_clock {
            clock.give(&mut command);
        }
        command.current_dir(&self.site.data).process_group(0).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn()
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.is_running().then(|| self.run().child.as_ref().map(Child::id))?
    }

    /// Stops every process of the server, the first one first, so that it forks no other meanwhile.
    pub(crate) async fn freeze(&self) -> Result<(), FaultError> {
        let root = self.root()?;
        signal_all(&[root], Signal::SIGSTOP);
        all_stopped(vec![root]).await?;
        let children = self.children(root);
        signal_all(&children, Signal::SIGSTOP);
        all_stopped(children).await
    }

    /// Lets the children go on first, so that the first process does not take their silence for a crash.
    pub(crate) async fn thaw(&self) -> Result<(), FaultError> {
        let root = self.root()?;
        let children = self.children(root);
        signal_all(&children, Signal::SIGCONT);
        signal_all(&[root], Signal::SIGCONT);
        let going = eventually(SIGNAL_LIMIT, || {
            let going = !children.iter().chain([&root]).any(|pid| is_stopped(*pid));
            async move { going }
        });
        going.await.ok_or_else(|| too_slow("thaw"))
    }

    /// Returns when no process of the server is left. No error when it did not run.
    pub(crate) async fn kill(&self) -> Result<(), FaultError> {
        if let Ok(root) = self.root() {
            signal_all(&[root], Signal::SIGKILL);
        }
        let gone = eventually(SIGNAL_LIMIT, || {
            let left = members(self.home.path());
            signal_all(&left, Signal::SIGKILL);
            let gone = left.is_empty() && !self.is_running();
            async move { gone }
        });
        gone.await.ok_or_else(|| too_slow("kill"))
    }

    /// Ends the server in order, and kills it when that takes too long.
    pub(crate) async fn stop(&self) -> Result<(), FaultError> {
        if let Ok(root) = self.root() {
            signal_all(&[root], self.launcher.stop_signal());
            // A frozen process gets no other signal.
            self.thaw().await?;
            let _or_killed_below = eventually(STOP_LIMIT, || async { !self.is_running() }).await;
        }
        self.kill().await
    }

    pub(crate) async fn restart(&self) -> Result<(), FaultError> {
        self.stop().await?;
        self.launch().await?;
        Ok(())
    }

    pub(crate) async fn restart_empty(&self) -> Result<(), FaultError> {
        self.kill().await?;
        self.home.wipe().map_err(FaultError::io("wipe the data"))?;
        self.launch().await?;
        Ok(())
    }

    pub(crate) fn set_clock(&self, offset: ClockOffset) -> Result<(), FaultError> {
        let clock = self.own_clock.as_ref().ok_or(FaultError::NoClock(self.service()))?;
        clock.set(offset).map_err(FaultError::io("set the clock"))
    }

    /// The requests since the process was started, by its log or by the monitor.
    pub(crate) async fn requests(&self) -> Result<Requests, FaultError> {
        if !self.site.options.counting {
            return Err(FaultError::NotCounting(self.service()));
        }
        match self.service() {
            Service::Redis => self.monitored().await,
            Service::Postgres => self.read_log().map(|log| Requests::of_postgres_log(&log)),
            Service::Zookeeper => self.read_log().map(|log| Requests::of_zookeeper_log(&log)),
            Service::Etcd => etcd_requests(&self.contact).await,
        }
    }

    async fn monitored(&self) -> Result<Requests, FaultError> {
        let monitor = self.run().monitor.clone().ok_or(FaultError::NotRunning(Service::Redis))?;
        let (mark, text) = monitor.next_mark();
        let echo = async { self.contact.resp().await?.call(&["ECHO", &text]).await };
        echo.await.map_err(FaultError::io("mark the count"))?;
        let counted = eventually(SIGNAL_LIMIT, || {
            let requests = monitor.requests_past(mark);
            async move { requests }
        });
        counted.await.ok_or_else(|| too_slow("count"))
    }

    fn read_log(&self) -> Result<String, FaultError> {
        let log = fs::read(self.log()).map_err(FaultError::io("read the log"))?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    fn service(&self) -> Service {
        self.contact.service
    }

    fn log(&self) -> PathBuf {
        self.site.home.join("log")
    }

    fn children(&self, root: Pid) -> Vec<Pid> {
        members(self.home.path()).into_iter().filter(|pid| *pid != root).collect()
    }

    fn root(&self) -> Result<Pid, FaultError> {
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok());
        pid.map(Pid::from_raw).ok_or(FaultError::NotRunning(self.service()))
    }

    /// Reaps the process when it has ended, and forgets it: its number may be given away from then on.
    fn is_running(&self) -> bool {
        let mut run = self.run();
        let runs = run.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)));
        if !runs {
            *run = Run::default();
        }
        runs
    }

    fn run(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        kill_members(self.home.path());
        if let Some(mut child) = self.run().child.take() {
            // It works below the directory only from exec on.
            let _ended = child.kill();
            let _reaped = child.wait();
        }
    }
}

/// Asks etcd, which always counts.
pub(crate) async fn etcd_requests(contact: &Contact) -> Result<Requests, FaultError> {
    let metrics = wire::http_get(contact.addr, "/metrics").await.map_err(FaultError::io("read /metrics"))?;
    Ok(Requests::of_etcd_metrics(&metrics))
}

async fn all_stopped(pids: Vec<Pid>) -> Result<(), FaultError> {
    let stopped = eventually(SIGNAL_LIMIT, || {
        let stopped = pids.iter().all(|pid| !is_going(*pid));
        async move { stopped }
    });
    stopped.await.ok_or_else(|| too_slow("freeze"))
}

fn no_place(service: Service, error: &io::Error) -> FailedStart {
    FailedStart::new(service, format!("no place to start it in: {error}"))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn too_slow(what: &'static str) -> FaultError {
    FaultError::Io { what, source: io::ErrorKind::TimedOut.into() }
}

/// Every one of the four servers says so in these words.
fn lost_its_port(failed: &FailedStart) -> bool {
    failed.log.to_lowercase().contains("address already in use")
}

fn tail(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    Ok(String::from_utf8_lossy(&end).into_owned())
}
