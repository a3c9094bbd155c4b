//! What waiting costs the server, and that everybody gets his turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockyard_api::{Clock, DistributedLock, Release};
use lockyard_postgres::{Mode, PostgresConfig, PostgresLock};
use lockyard_testbed::{Options, Requests, Server};
use tokio::task::JoinSet;

mod support;
use support::{Checked, acquire, claim, granted, harness_with, name, with_ttl};

/// So many clients wait for a held name for a while, and then each holds it once.
#[derive(Clone, Copy)]
struct Crowd {
    waiters: usize,
    hold: Duration,
    quiet: Duration,
    /// Statements a second, of all together while they wait.
    most: f64,
}

const SMALL: Crowd = Crowd { waiters: 50, hold: Duration::ZERO, quiet: Duration::from_secs(4), most: 5.0 };
// Each queues anew every 15 s, in one statement; a row in a queue is two locks, and a slice one or two of them.
const FULL: Crowd = Crowd { waiters: 300, hold: Duration::from_millis(20), quiet: Duration::from_secs(20), most: 40.0 };
/// A client has up to four sessions, and each of them is a process of the server.
const MOST_SESSIONS: usize = 4;

/// The server hears little of them while they wait, and when the name is given back each gets it once, alone (B133).
async fn many_wait(mode: Mode, Crowd { waiters, hold, quiet, most }: Crowd) -> Checked {
    let sessions = format!("max_connections={}", MOST_SESSIONS * waiters + 50);
    let Some(harness) = harness_with(mode, Options::new().counting().args(["-c", &sessions])).await? else {
        return Ok(());
    };
    let server = harness.server().ok_or("an own server")?;
    let name = name();
    let holder = harness.client(harness.config()).await?.0;
    let alone = cycles_alone(server, &holder).await?;
    // Longer than the test: no heartbeat and no re-check at the end of a lease falls into it.
    let first = with_ttl(claim(&name), 120);
    granted(&holder, &first).await?;

    let holding = Arc::new(AtomicUsize::new(0));
    let queued = Arc::new(AtomicUsize::new(0));
    let mut waiting = JoinSet::new();
    for _ in 0..waiters {
        let lock = harness.client(harness.config()).await?.0;
        let claim = with_ttl(claim(&name).queueing(), 120);
        let (holding, queued) = (Arc::clone(&holding), Arc::clone(&queued));
        waiting.spawn(async move {
            let _queued = lock.try_acquire(&claim).await?;
            queued.fetch_add(1, Ordering::SeqCst);
            acquire(&lock, &claim, Duration::from_secs(120)).await?;
            assert_eq!(holding.fetch_add(1, Ordering::SeqCst), 0, "two hold the name");
            tokio::task::yield_now().await;
            Clock::system().sleep(hold).await;
            holding.fetch_sub(1, Ordering::SeqCst);
            assert_eq!(lock.release(&claim).await?, Release::Released);
            Checked::Ok(())
        });
    }
    let all = || async { queued.load(Ordering::SeqCst) == waiters };
    lockyard_testbed::timing::eventually(Duration::from_secs(20), all).await.ok_or("not all queued")?;

    let clock = Clock::system();
    let (start, before) = (clock.now(), server.requests().await?);
    clock.sleep(quiet).await;
    let (end, after) = (clock.now(), server.requests().await?);
    let asked = after.since(&before);
    let rate = statements(&asked) as f64 / end.since(start).as_secs_f64();
    assert!(rate < most, "{rate} statements a second: {asked:?}");

    let (start, before) = (clock.now(), server.requests().await?);
    holder.release(&first).await?;
    while let Some(ended) = waiting.join_next().await {
        ended??;
    }
    let took = clock.now().since(start);
    let asked = server.requests().await?.since(&before);
    let turn = statements(&asked) as f64 / waiters as f64;
    println!(
        "{mode:?}, {waiters} wait: {rate:.1} statements/s; {turn:.2} a hand-over, {alone:.2} a cycle alone; {took:.1?}, {asked:?}"
    );
    assert!(turn <= alone + 4.0, "{turn:.1} statements a hand-over, {alone:.1} a cycle alone: {asked:?}");
    Ok(())
}

/// What it costs to take a name and give it back when nobody waits.
async fn cycles_alone(server: &Server, lock: &PostgresLock) -> Checked<f64> {
    const CYCLES: u32 = 20;
    let claim = claim(&name()).queueing();
    granted(lock, &claim).await?;
    lock.release(&claim).await?;
    let before = server.requests().await?;
    for _ in 0..CYCLES {
        granted(lock, &claim).await?;
        lock.release(&claim).await?;
    }
    Ok(statements(&server.requests().await?.since(&before)) as f64 / f64::from(CYCLES))
}

/// Not the steps before an `execute`, which are sent in the same flight, and nothing for the life of a session.
fn statements(requests: &Requests) -> u64 {
    requests.of("statement") + requests.of("execute")
}

macro_rules! in_each_mode {
    ($($mode:ident: $variant:ident),+) => {$(
        mod $mode {
            use super::*;

            #[tokio::test]
            async fn fifty_waiters_are_quiet() -> Checked {
                many_wait(Mode::$variant, SMALL).await
            }

            #[tokio::test]
            #[ignore = "a crowd: a minute, and it tells what a hand-over costs"]
            async fn three_hundred_waiters_cost_no_more_a_hand_over() -> Checked {
                many_wait(Mode::$variant, FULL).await
            }
        }
    )+};
}

in_each_mode! { advisory: Advisory, row: Row, lease: Lease }

/// What a slice that is over has left is undone in the flight that begins the next one.
async fn a_slice_costs_one_statement(mode: Mode) -> Checked {
    const WAITERS: u32 = 4;
    /// The shortest that a slice of half a second may be.
    const SHORTEST: f64 = 0.4;
    let options = Options::new().counting();
    let Some(harness) = harness_with(mode, options).await? else { return Ok(()) };
    let server = harness.server().ok_or("an own server")?;
    let config = PostgresConfig::from_url(&format!("{}?lock={}&wait_slice=500ms", server.lock_url(), mode.as_str()))?;
    let (name, clock) = (name(), Clock::system());
    let holder = harness.client(config.clone()).await?.0;
    let first = with_ttl(claim(&name), 120);
    granted(&holder, &first).await?;
    let mut waiting = JoinSet::new();
    for _ in 0..WAITERS {
        let (lock, claim) = (harness.client(config.clone()).await?.0, with_ttl(claim(&name).queueing(), 120));
        waiting.spawn(async move { acquire(&lock, &claim, Duration::from_secs(60)).await.map(drop).is_ok() });
    }
    let queued = || async { (holder.inspect(&name).await.ok()??.waiters == Some(u64::from(WAITERS))).then_some(()) };
    lockyard_testbed::timing::eventually(Duration::from_secs(20), queued).await.ok_or("they queue")?;
    let (begin, before) = (clock.now(), server.requests().await?);
    clock.sleep(Duration::from_secs(4)).await;
    let made = statements(&server.requests().await?.since(&before)) as f64;
    let slices = f64::from(WAITERS) * (clock.now().since(begin).as_secs_f64() / SHORTEST + 1.0);
    assert!(made >= f64::from(WAITERS) && made <= slices, "{made} statements, at most {slices} slices");
    waiting.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_slice_of_a_row_costs_one_statement() -> Checked {
    a_slice_costs_one_statement(Mode::Row).await
}

#[tokio::test]
async fn a_slice_of_an_advisory_lock_costs_one_statement() -> Checked {
    a_slice_costs_one_statement(Mode::Advisory).await
}

/// The limit of the server is one for each lock that a statement waits for: who takes the place of the first in a row's queue
/// waits for a whole slice once more, and no error comes of it.
#[tokio::test]
async fn a_hold_longer_than_two_slices_fails_no_waiter() -> Checked {
    const WAITERS: usize = 6;
    let Some(harness) = harness_with(Mode::Row, Options::new().native_only()).await? else { return Ok(()) };
    let url = harness.server().ok_or("an own server")?.lock_url();
    let config = PostgresConfig::from_url(&format!("{url}?lock=row&wait_slice=4s&op_timeout=2s"))?;
    let (name, clock) = (name(), Clock::system());
    let holder = harness.client(config.clone()).await?.0;
    let first = with_ttl(claim(&name), 120);
    granted(&holder, &first).await?;
    let mut waiting = JoinSet::new();
    for _ in 0..WAITERS {
        let (lock, claim) = (harness.client(config.clone()).await?.0, with_ttl(claim(&name).queueing(), 120));
        waiting.spawn(async move {
            acquire(&lock, &claim, Duration::from_secs(60)).await?;
            assert_eq!(lock.release(&claim).await?, Release::Released);
            Checked::Ok(())
        });
    }
    tokio::select! {
        ended = waiting.join_next() => panic!("the name is held, and a waiter ended: {ended:?}"),
        () = clock.sleep(Duration::from_secs(11)) => {}
    }
    holder.release(&first).await?;
    while let Some(ended) = waiting.join_next().await {
        ended??;
    }
    Ok(())
}
