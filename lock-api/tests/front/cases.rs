//! Cases seen in the field, where the front end alone decides what comes of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockyard_api::{
    Attempt, Capabilities, Claim, Clock, DistributedLock, ErrorKind, Event, Holder, LockName, Locker, LostReason,
    Outcome, Release, Renewal, Result, Wake, async_trait,
};
use lockyard_memory::MemoryLock;
use tokio::task::JoinSet;

use crate::support::{Heard, NAME, TTL, client, entries, eventually, locker, over, pass, server};

/// A client that counts what it is asked, and whose renewals end by a panic so many times.
#[derive(Debug)]
struct Shaky {
    inner: MemoryLock,
    panics: AtomicU32,
    releases: Arc<AtomicU32>,
}

impl Shaky {
    fn new(inner: MemoryLock, panics: u32) -> Self {
        Self { inner, panics: AtomicU32::new(panics), releases: Arc::default() }
    }
}

#[async_trait]
impl DistributedLock for Shaky {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.inner.try_acquire(claim).await
    }

    async fn wait(&self, claim: &Claim) -> Result<Wake> {
        self.inner.wait(claim).await
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let left = self.panics.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(left.is_err(), "this renewal is meant to fail");
        self.inner.renew(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.releases.fetch_add(1, Ordering::SeqCst);
        self.inner.release(claim).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        self.inner.inspect(name).await
    }
}

/// B04: a guard that is kept although its hold is lost does not keep the other tasks of its locker from the name.
#[tokio::test]
async fn a_lost_hold_gives_its_turn_to_the_next_task() {
    let clock = Clock::manual();
    let server = server(&clock);
    let locks = locker(&server);
    let late = locks.lock(NAME).fixed().acquire().await.expect("acquired");
    let waiting = tokio::spawn({
        let locks = locks.clone();
        async move { locks.lock(NAME).fixed().acquire().await }
    });
    pass(&clock, TTL + Duration::from_secs(1)).await;
    eventually("the next task has the name", || waiting.is_finished()).await;
    let next = waiting.await.expect("no panic").expect("acquired");
    assert_eq!(late.lost().await, LostReason::Expired);
    assert!(next.fencing_token() > late.fencing_token());
    assert!(locks.lock(NAME).fixed().try_acquire().await.expect("no error").is_none(), "the next one's turn stands");
    assert_eq!(late.release().await.expect("answered"), Release::NotHeld);
    assert!(next.is_held());
    assert!(locks.lock(NAME).fixed().try_acquire().await.expect("no error").is_none(), "the late one ended no turn");
    assert_eq!(next.release().await.expect("answered"), Release::Released);
    assert!(locks.lock(NAME).fixed().try_acquire().await.expect("no error").is_some());
}

/// B38: a job that ran past its lock keeps its own error, with the loss beside it, and one release is tried.
#[tokio::test]
async fn the_error_of_a_job_is_not_hidden_by_the_loss() {
    let clock = Clock::manual();
    let server = server(&clock);
    let shaky = Shaky::new(client(&server), 0);
    let releases = Arc::clone(&shaky.releases);
    let locks = Locker::builder(shaky).clock(clock.clone()).build().expect("runtime");
    let guard = locks.acquire(NAME).await.expect("acquired");
    let ended = guard
        .run(async {
            // Blocks its thread: neither the watchdog nor the guard gets to run meanwhile.
            clock.advance(TTL * 2);
            Err::<(), _>("the job's own error")
        })
        .await;
    assert_eq!(ended.expect("the job ended by itself"), Err("the job's own error"));
    assert_eq!(guard.lost_reason(), Some(LostReason::Expired));
    assert_eq!(guard.release().await.expect("answered"), Release::NotHeld);
    assert_eq!(releases.load(Ordering::SeqCst), 1);
}

/// B47: a renewal that ends by a panic is one of unknown outcome, not the end of all renewals.
#[tokio::test]
async fn a_renewal_that_panics_is_tried_again() {
    let clock = Clock::manual();
    let server = server(&clock);
    let locks = Locker::builder(Shaky::new(client(&server), 1)).clock(clock.clone()).build().expect("runtime");
    let guard = locks.acquire(NAME).await.expect("acquired");
    pass(&clock, TTL * 3).await;
    assert!(guard.is_held(), "{:?}", guard.lost_reason());
    assert_eq!(entries(&server, NAME), 1);
}

/// B47: where every renewal panics the hold is lost at its deadline, and said so.
#[tokio::test]
async fn renewals_that_always_panic_lose_the_hold_in_time() {
    let clock = Clock::manual();
    let server = server(&clock);
    let locks = Locker::builder(Shaky::new(client(&server), u32::MAX)).clock(clock.clone()).build().expect("runtime");
    let guard = locks.acquire(NAME).await.expect("acquired");
    let deadline = clock.now().plus(guard.remaining());
    pass(&clock, TTL).await;
    assert!(clock.now() >= deadline && !guard.is_held());
    assert_eq!(guard.lost().await, LostReason::Expired);
}

/// B47: the first tick after a pause past the deadline tells the loss and renews nothing.
#[tokio::test]
async fn a_pause_past_the_deadline_is_told_and_not_renewed_away() {
    let clock = Clock::manual();
    let server = server(&clock);
    let heard = Heard::default();
    let locks = Locker::builder(client(&server)).clock(clock.clone()).observer(heard.clone()).build().expect("runtime");
    let guard = locks.acquire(NAME).await.expect("acquired");
    clock.advance(TTL * 2);
    eventually("the watchdog tells it", || heard.count(|e| matches!(e, Event::Lost { .. })) == 1).await;
    pass(&clock, TTL).await;
    assert_eq!(heard.count(|e| matches!(e, Event::Renewed { .. })), 0);
    assert!(!guard.is_held());
}

/// B51: leases about as short as the way to the server are refused or end honestly, and nothing underflows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_shorter_than_the_way_end_honestly() {
    let server = server(&Clock::system());
    let mut tasks = JoinSet::new();
    for ttl in 5..=15 {
        let locks = locker(&server);
        tasks.spawn(async move {
            for _ in 0..20 {
                let request = locks.lock(NAME).ttl(Duration::from_millis(ttl)).wait(Duration::from_millis(100));
                match request.acquire().await {
                    Ok(guard) => {
                        assert!(guard.remaining() <= Duration::from_millis(ttl));
                        guard.release().await.expect("answered");
                    }
                    Err(error) if error.kind() == ErrorKind::InvalidTtl => assert!(ttl < 10, "{error}"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{error}"),
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task panics");
    }
}

/// B53: leases that no clock can carry are refused, and the message names the limit.
#[tokio::test]
async fn huge_leases_are_refused_with_the_limit() {
    let server = server(&Clock::system());
    let (locks, other) = (locker(&server), locker(&server));
    let limit = format!("{:?}", locks.capabilities().ttl.max);
    for ttl in [
        Duration::MAX,
        Duration::from_millis(1 << 63),
        Duration::from_secs(1 << 31),
        Duration::from_secs(i64::MAX.unsigned_abs()),
        Duration::from_secs(300 * 365 * 24 * 3600),
    ] {
        let error = locks.lock(NAME).ttl(ttl).acquire().await.expect_err("too long");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::InvalidTtl, Outcome::NotApplied));
        assert!(error.message().contains(&limit), "{error}");
    }
    let longest = locks.capabilities().ttl.max;
    let guard = locks.lock(NAME).ttl(longest).acquire().await.expect("the longest");
    assert!(guard.is_held() && guard.remaining() > longest / 2);
    assert!(other.try_acquire(NAME).await.expect("no error").is_none());
}

/// B60: the wall clock is set back by an hour and forward again; renewals keep their pace and waits their length.
#[tokio::test]
async fn a_wall_clock_that_is_set_changes_no_pace() {
    let hour = Duration::from_secs(3600);
    let clock = Clock::manual();
    let server = server(&clock);
    let heard = Heard::default();
    let locks = Locker::builder(client(&server)).clock(clock.clone()).observer(heard.clone()).build().expect("runtime");
    let guard = locks.acquire(NAME).await.expect("acquired");
    let renewals = || heard.count(|event| matches!(event, Event::Renewed { .. }));
    for set in [Clock::set_back_wall_clock, Clock::step_wall_clock] {
        let (before, waiter) = (renewals(), over(client(&server), &clock));
        let waiting =
            tokio::spawn(async move { waiter.lock(NAME).wait(TTL * 4).acquire().await.expect_err("held by another") });
        pass(&clock, Duration::from_secs(1)).await;
        set(&clock, hour);
        pass(&clock, TTL * 3).await;
        assert!(!waiting.is_finished(), "the wait was cut");
        pass(&clock, TTL * 2).await;
        eventually("the wait has ended and was not stretched", || waiting.is_finished()).await;
        assert_eq!(waiting.await.expect("no panic").kind(), ErrorKind::Timeout);
        let seen = renewals() - before;
        assert!((13..=17).contains(&seen), "one each third of the ttl, seen {seen}");
        assert!(guard.is_held(), "{:?}", guard.lost_reason());
    }
}
