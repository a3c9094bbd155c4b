//! Clients in processes of their own that are stopped, killed and cut off, on every server.
#![cfg(feature = "lab")]

#[path = "../src/lab/chaos/puppet/mod.rs"]
#[allow(dead_code, reason = "the chaos command uses the rest")]
mod puppet;
mod support;

use std::time::Duration;

use lockyard_conformance::history::{Event, History, Rules, What};
use lockyard_testbed::timing::scaled;
use lockyard_testbed::{Mode, Proxy, Server, Service};
use puppet::{Do, Puppet, now};
use support::{SOON, bare};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Short, since most of what is tested waits for its end.
const TTL: Duration = Duration::from_secs(2);

/// One server, its clients, and what they did.
struct Stage {
    server: &'static Server,
    query: &'static str,
    namespace: String,
    registers: TempDir,
    tell: UnboundedSender<Event>,
    told: UnboundedReceiver<Event>,
    seen: Vec<Event>,
    clients: u32,
}

impl Stage {
    async fn of(service: Service, query: &'static str) -> Option<Self> {
        let server = match Server::shared(service).await {
            Ok(server) => server,
            Err(error) if !lockyard_testbed::require::required(service) => {
                eprintln!("SKIPPED: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let (tell, told) = unbounded_channel();
        let namespace = format!("clients-{}", lockyard::Owner::random());
        let registers = tempfile::tempdir().expect("a folder");
        Some(Self { server, query, namespace, registers, tell, told, seen: Vec::new(), clients: 0 })
    }

    fn url(&self, base: &str) -> String {
        let (query, namespace) = (self.query, &self.namespace);
        format!("{base}?{query}ttl={}ms&op_timeout=1s&namespace={namespace}", TTL.as_millis())
    }

    /// A client with a way of its own to the server.
    async fn client(&mut self) -> (Puppet, Proxy) {
        let proxy = Proxy::start(self.server.addr()).await.expect("a port");
        self.clients += 1;
        let mut command = bare(&[]);
        command.env("LOCKYARD_URL", self.url(&self.server.lock_url_via(proxy.addr())));
        let client = Puppet::start(command, self.clients, self.registers.path(), self.tell.clone()).expect("starts");
        (client, proxy)
    }

    /// The next event of this client that is wanted.
    async fn event(&mut self, client: u32, limit: Duration, wanted: impl Fn(&What) -> bool + Send + Sync) -> Event {
        let next = async {
            let mut looked = 0;
            loop {
                if let Some(found) = self.seen[looked..].iter().find(|e| e.process == client && wanted(&e.what)) {
                    return found.clone();
                }
                looked = self.seen.len();
                let event = self.told.recv().await.expect("we have a sender");
                self.seen.push(event);
            }
        };
        match tokio::time::timeout(scaled(limit), next).await {
            Ok(event) => event,
            Err(_) => panic!("client {client} did not say it in time: {:#?}", self.seen),
        }
    }

    async fn granted(&mut self, client: &mut Puppet, op: u64) -> Event {
        client.order(op, Do::Acquire { name: "job".to_owned(), wait_ms: 60_000 }).await.expect("it lives");
        self.event(client.process(), Duration::from_secs(60), |what| matches!(what, What::Granted { .. })).await
    }

    /// What the backend promises, and the bound for a takeover from a holder that is gone: its lease, the server's slack,
    /// and what a machine may take to do it all.
    async fn promises(&self) -> (Rules, Duration) {
        let url = self.url(&self.server.lock_url());
        let locks = lockyard::connect(&url).await.expect("the server answers");
        let promises = locks.capabilities().clone();
        let guard = locks.acquire("how long").await.expect("it is free");
        let granted = guard.ttl().expect("a lease");
        guard.release().await.expect("the server answers");
        let bound = granted + promises.slack + scaled(Duration::from_secs(5));
        (Rules::of(&promises, granted, Duration::from_secs(1)), bound)
    }

    /// The history keeps the rules.
    fn check(&mut self, rules: Rules) {
        while let Ok(event) = self.told.try_recv() {
            self.seen.push(event);
        }
        let mut history = History::new(rules);
        history.events.clone_from(&self.seen);
        let verdict = history.check();
        assert!(verdict.violations.is_empty(), "{:#?}\n{:#?}", verdict.violations, self.seen);
        assert!(verdict.holds >= 2, "{:#?}", self.seen);
    }
}

fn token(event: &Event) -> u64 {
    match event.what {
        What::Granted { token: Some(token), .. } => token,
        _ => panic!("no token in {event}"),
    }
}

/// What the frozen holder has before it when it runs again.
#[derive(Clone, Copy)]
enum Late {
    /// A write and a release, sent while it was frozen: B03, B44.
    Orders,
    /// Nothing but the timers of its watchdog: B43.
    Watchdog,
}

async fn late_holder(service: Service, query: &'static str, late: Late) {
    let Some(mut stage) = Stage::of(service, query).await else { return };
    let (rules, bound) = stage.promises().await;
    let ((mut a, _way_a), (mut b, _way_b), (mut c, _way_c)) =
        (stage.client().await, stage.client().await, stage.client().await);
    let first = stage.granted(&mut a, 1).await;
    a.freeze().expect("it runs");
    let frozen = now();
    if let Late::Orders = late {
        a.order(1, Do::Write).await.expect("the pipe takes it");
        a.order(1, Do::Release).await.expect("the pipe takes it");
    }
    let second = stage.granted(&mut b, 1).await;
    let took = Duration::from_nanos(second.at - frozen);
    assert!(took <= bound, "a frozen holder blocked others for {took:?}, allowed are {bound:?}");
    assert!(token(&second) > token(&first), "{second} after {first}");
    b.order(1, Do::Write).await.expect("it lives");
    stage.event(b.process(), SOON, |what| *what == What::Written).await;

    a.thaw().expect("it is there");
    if let Late::Orders = late {
        stage.event(a.process(), SOON, |what| *what == What::Stale).await;
        let answered = |what: &What| matches!(what, What::Released { .. } | What::Failed { .. });
        let answer = stage.event(a.process(), SOON, answered).await.what;
        // ZooKeeper closes the connection of a session that it has ended: what it did is not known before the next one.
        let right = matches!(answer, What::Released { held: false } | What::Failed { unknown: true, .. });
        assert!(right, "there was nothing left to release, and the answer was {answer}");
    } else {
        stage.event(a.process(), SOON, |what| matches!(what, What::Lost { .. })).await;
    }
    // Whatever the late one did at the server, it has done by now: it was answered, or it was told that it is lost.
    c.order(1, Do::Try { name: "job".to_owned() }).await.expect("it lives");
    let answer = |what: &What| matches!(what, What::Busy | What::Granted { .. });
    assert_eq!(stage.event(c.process(), SOON, answer).await.what, What::Busy, "the next holder keeps it");
    b.order(1, Do::Release).await.expect("it lives");
    let answer = |what: &What| matches!(what, What::Released { .. } | What::Failed { .. });
    assert_eq!(stage.event(b.process(), SOON, answer).await.what, What::Released { held: true });
    for client in [&mut a, &mut b, &mut c] {
        assert!(client.end().await.expect("it ends"), "in order");
    }
    stage.check(rules);
}

/// How a holder goes.
#[derive(Debug, Clone, Copy)]
enum Gone {
    Frozen,
    Killed,
    CutOff,
}

/// A waiter gets the name of a holder that is gone within the bound, and not before the holder's own deadline.
async fn takeover(service: Service, query: &'static str, gone: Gone) {
    let Some(mut stage) = Stage::of(service, query).await else { return };
    let (rules, bound) = stage.promises().await;
    let ((mut a, way_a), (mut b, _way_b)) = (stage.client().await, stage.client().await);
    let first = stage.granted(&mut a, 1).await;
    b.order(1, Do::Acquire { name: "job".to_owned(), wait_ms: 60_000 }).await.expect("it lives");
    stage.event(b.process(), SOON, |what| *what == What::Acquire).await;
    let since = now();
    let mut alive = Some(a);
    match (gone, &alive) {
        (Gone::Frozen, Some(a)) => a.freeze().expect("it runs"),
        (Gone::CutOff, _) => way_a.set(Mode::Hold).await,
        _ => alive.take().expect("it lives").kill().await.expect("it was there"),
    }
    let second = stage.event(b.process(), SOON, |what| matches!(what, What::Granted { .. })).await;
    let took = Duration::from_nanos(second.at - since);
    println!("{service} {query} {gone:?}: taken over after {took:?}, promised within {bound:?}");
    assert!(took <= bound, "a holder that is gone blocked others for {took:?}, allowed are {bound:?}");
    assert!(token(&second) > token(&first), "{second} after {first}");
    if let Gone::CutOff = gone {
        let lost = stage.event(first.process, SOON, |what| matches!(what, What::Lost { .. })).await;
        assert!(lost.at <= second.at, "the holder was told by its own clock: {lost}, {second}");
    }
    drop(alive);
    stage.check(rules);
}

macro_rules! on_each_server {
    ($($name:ident: $service:ident $query:literal),+ $(,)?) => {$(
        mod $name {
            use super::*;

            // B03, B44
            #[tokio::test]
            async fn a_late_holder_frees_nothing_and_its_write_is_refused() {
                late_holder(Service::$service, $query, Late::Orders).await;
            }

            // B43
            #[tokio::test]
            async fn a_late_renewal_takes_nothing_back() {
                late_holder(Service::$service, $query, Late::Watchdog).await;
            }

            #[tokio::test]
            async fn a_frozen_holder_is_taken_over_from() {
                takeover(Service::$service, $query, Gone::Frozen).await;
            }

            #[tokio::test]
            async fn a_killed_holder_is_taken_over_from() {
                takeover(Service::$service, $query, Gone::Killed).await;
            }

            #[tokio::test]
            async fn a_holder_that_is_cut_off_is_taken_over_from() {
                takeover(Service::$service, $query, Gone::CutOff).await;
            }
        }
    )+};
}

on_each_server! {
    redis: Redis "",
    postgres_advisory: Postgres "lock=advisory&",
    postgres_row: Postgres "lock=row&",
    postgres_lease: Postgres "lock=lease&",
    etcd: Etcd "",
    zookeeper: Zookeeper "",
}
